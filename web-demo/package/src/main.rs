//! Builds what a browser needs of this project:
//!
//! - `web-demo/pkg`, a package as npm has them: JavaScript, types, WebAssembly;
//! - `web-demo/dist`, the demonstration page: static files for any host, offline too.
//!
//! ```sh
//! cargo run --release -p dla-web-pkg             # builds both
//! cargo run --release -p dla-web-pkg -- --serve  # and serves the page on this machine
//! ```

mod bindings;
mod page;
mod serve;
mod stand_in;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What a step that failed says.
type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

const USAGE: &str = "usage: dla-web-pkg [--serve [PORT]]";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let port = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => None,
        ["--serve"] => Some(8000),
        ["--serve", port] if port.parse::<u16>().is_ok() => port.parse().ok(),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(port) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(port: Option<u16>) -> Result<()> {
    // A port that is taken is no reason to wait for a build.
    let listener = port.map(serve::listen).transpose()?;
    let folder = web_demo();
    let pkg = folder.join("pkg");
    bindings::build(&folder, &pkg)?;
    page::build(&folder, &pkg, &folder.join("dist"))?;
    match listener {
        Some(listener) => serve::serve(&folder.join("dist"), &listener),
        None => Ok(()),
    }
}

/// The folder web-demo of this checkout.
fn web_demo() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}
