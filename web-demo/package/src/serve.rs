//! Serves a folder on this machine, for a look at the page.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Component, Path, PathBuf};
use std::thread;

use crate::Result;

/// Takes a port of this machine, 0 for any that is free.
///
/// # Errors
/// When it is taken or not allowed.
pub(crate) fn listen(port: u16) -> Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|error| {
        let got = match error.kind() {
            ErrorKind::AddrInUse => "one in use".to_owned(),
            _ => error.to_string(),
        };
        format!("serve, port {port}: expected a free port, got {got}; name another: --serve PORT")
            .into()
    })
}

/// Serves `folder` until the program is ended.
///
/// # Errors
/// When the listener has no address.
pub(crate) fn serve(folder: &Path, listener: &TcpListener) -> Result<()> {
    println!("http://localhost:{}/", listener.local_addr()?.port());
    for stream in listener.incoming() {
        let folder = folder.to_owned();
        // A visitor who leaves early is none of the server's business.
        thread::spawn(move || stream.and_then(|stream| answer(stream, &folder)));
    }
    Ok(())
}

fn answer(mut stream: TcpStream, folder: &Path) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut request = String::new();
    reader.read_line(&mut request)?;
    let mut line = String::new();
    while reader.read_line(&mut line)? > 2 {
        line.clear();
    }
    let path = request.split_whitespace().nth(1).unwrap_or_default();
    let found = file(folder, path).and_then(|file| Some((fs::read(&file).ok()?, kind(&file))));
    let (status, body, kind) = match found {
        Some((body, kind)) => ("200 OK", body, kind),
        None => ("404 Not Found", Vec::new(), "text/plain"),
    };
    let len = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len}\r\n\
         cache-control: no-store\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(&body)
}

/// The file that a request means, if it lies in the folder.
fn file(folder: &Path, path: &str) -> Option<PathBuf> {
    let path = path.split(['?', '#']).next()?.trim_start_matches('/');
    let path = Path::new(if path.is_empty() { "index.html" } else { path });
    let inside = path
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    inside.then(|| folder.join(path))
}

fn kind(file: &Path) -> &'static str {
    match file.extension().and_then(|end| end.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("json") => "application/json",
        Some("wasm") => "application/wasm",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::{file, listen};
    use std::path::Path;

    #[test]
    fn a_taken_port_is_named() {
        let taken = listen(0).expect("a free port");
        let port = taken.local_addr().expect("an address").port();
        let error = listen(port).expect_err("taken").to_string();
        assert!(
            error.contains(&port.to_string()) && error.contains("in use"),
            "{error}"
        );
        drop(taken);
        assert!(listen(port).is_ok());
    }

    #[test]
    fn nothing_outside_the_folder_is_served() {
        let folder = Path::new("dist");
        assert_eq!(file(folder, "/"), Some(folder.join("index.html")));
        assert_eq!(file(folder, "/pkg/a.js?x"), Some(folder.join("pkg/a.js")));
        assert_eq!(file(folder, "/../secret"), None);
        assert_eq!(
            file(folder, "//etc/passwd"),
            Some(folder.join("etc/passwd"))
        );
    }
}
