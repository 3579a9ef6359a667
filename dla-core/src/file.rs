//! Files that a caller names, read with suspicion: devices and pipes may have no end.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use crate::error::{Error, Result};

/// The longest text that is read whole: settings, tokenizers, prompts.
pub const MAX_TEXT: u64 = 256 << 20;

/// Opens a regular file; `op` is the operation that errors name.
///
/// # Errors
/// For what is not there or cannot be opened, a folder, a device and a pipe.
pub fn open(op: &'static str, path: &Path) -> Result<File> {
    // Before it is opened: opening a pipe waits for who writes into it.
    let metadata = fs::metadata(path).map_err(|error| unreadable(op, path, error))?;
    let got = match metadata.is_dir() {
        _ if metadata.is_file() => {
            return File::open(path).map_err(|error| unreadable(op, path, error));
        }
        true => "a folder",
        false => "a device or a pipe",
    };
    let name = path.display().to_string();
    Err(Error::input(op, name, "a regular file", got))
}

/// Reads a regular file of at most `most` bytes.
///
/// # Errors
/// Those of [`open`], and for more bytes, or more than memory has room for.
///
/// ```
/// use dla_core::file;
/// let error = file::read("example", "/dev/null".as_ref(), 100).expect_err("no regular file");
/// assert!(error.is_input());
/// ```
pub fn read(op: &'static str, path: &Path, most: u64) -> Result<Vec<u8>> {
    bounded(op, path, open(op, path)?, most)
}

/// Reads what a person hands over, a file, a pipe, a device or, for `-`, stdin, of at most `most` bytes; waits for who
/// writes into a pipe.
///
/// # Errors
/// For what is not there or cannot be read, a folder, and for more bytes, or more than memory has room for.
pub fn read_stream(op: &'static str, path: &Path, most: u64) -> Result<Vec<u8>> {
    if path == Path::new("-") {
        return stream(op, "stdin".as_ref(), io::stdin().lock(), most, 0);
    }
    let file = File::open(path).map_err(|error| unreadable(op, path, error))?;
    let metadata = file
        .metadata()
        .map_err(|error| unreadable(op, path, error))?;
    if metadata.is_dir() {
        let name = path.display().to_string();
        return Err(Error::input(op, name, "a file or a pipe", "a folder"));
    }
    bounded(op, path, file, most)
}

fn bounded(op: &'static str, path: &Path, file: File, most: u64) -> Result<Vec<u8>> {
    let metadata = file.metadata();
    let len = metadata.map_err(|error| unreadable(op, path, error))?.len();
    stream(op, path, file, most, len)
}

/// Reads what is called `path`, about `len` bytes.
fn stream(op: &'static str, path: &Path, from: impl Read, most: u64, len: u64) -> Result<Vec<u8>> {
    let unreadable = |error| unreadable(op, path, error);
    let too_long = |got: u64| {
        let expected = format!("a file of at most {most} bytes");
        Error::input(op, path.display().to_string(), expected, got)
    };
    if len > most {
        return Err(too_long(len));
    }
    let mut bytes = Vec::new();
    let room = bytes.try_reserve_exact(usize::try_from(len).unwrap_or(usize::MAX));
    room.map_err(|_| unreadable(io::ErrorKind::OutOfMemory.into()))?;
    // It may have grown since.
    let read = from.take(most.saturating_add(1)).read_to_end(&mut bytes);
    match read.map_err(unreadable)? as u64 {
        read if read <= most => Ok(bytes),
        read => Err(too_long(read)),
    }
}

/// Reads a regular file of UTF-8 text, at most [`MAX_TEXT`] bytes.
///
/// # Errors
/// Those of [`read`], and for bytes that are no UTF-8.
pub fn read_text(op: &'static str, path: &Path) -> Result<String> {
    String::from_utf8(read(op, path, MAX_TEXT)?).map_err(|error| {
        let got = format!("another byte at {}", error.utf8_error().valid_up_to());
        Error::input(op, path.display().to_string(), "UTF-8 text", got)
    })
}

fn unreadable(op: &'static str, path: &Path, error: io::Error) -> Error {
    let name = path.display().to_string();
    Error::input(op, name, "a readable file", error).advise("check the path")
}

#[cfg(test)]
mod tests {
    use super::{read, read_text};

    #[test]
    fn a_file_is_as_long_as_is_allowed_and_no_longer() {
        let name = format!("dla-file-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, b"ab\xff").expect("a file");
        assert_eq!(read("test", &path, 3).expect("three bytes"), b"ab\xff");
        let long = read("test", &path, 2).expect_err("a byte too many");
        let text = read_text("test", &path).expect_err("no UTF-8");
        let folder = read("test", &std::env::temp_dir(), 3).expect_err("a folder");
        std::fs::remove_file(&path).expect("removed");
        let absent = read("test", &path, 3).expect_err("no file");
        for (error, told) in [
            (long, "at most 2 bytes, got 3"),
            (text, "UTF-8 text, got another byte at 2"),
            (folder, "a regular file, got a folder"),
            (absent, "a readable file"),
        ] {
            assert!(error.is_input() && error.op() == "test", "{error}");
            assert!(error.to_string().contains(told), "{error}");
        }
    }
}
