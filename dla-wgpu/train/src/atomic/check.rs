//! Outputs that cannot be written are refused before any work is done.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::Path;

use dla_core::{Error, Result};

use super::temporary::Temporary;
use super::{folder, target, unwritten};

/// Refuses a path that [`super::write`] could not write.
///
/// # Errors
/// When the folder does not exist or cannot be written, or `path` is a folder, a device or a file that is write-protected.
pub fn check(path: &Path) -> Result<()> {
    let refused =
        |expected, got: &dyn ToString| Error::input("write", name(path), expected, got.to_string());
    let file = "a file in an existing folder";
    if path.as_os_str().is_empty() {
        return Err(refused(file, &"an empty name"));
    }
    let target = target(path).map_err(|error| refused(file, &error))?;
    if target.is_dir() || ends_as_folder(path) {
        return Err(refused("a file", &"a folder").advise("name a file in it"));
    }
    check_parent(path, folder(&target), file)?;
    match fs::metadata(&target) {
        Ok(metadata) if !metadata.is_file() => {
            let expected = "a new name or a regular file";
            return Err(refused(expected, &"a device or a pipe"));
        }
        Ok(_) => {
            let opened = OpenOptions::new().append(true).open(&target);
            opened.map_err(|error| {
                let error = refused("a file that may be replaced", &error);
                error.advise("name another one, or change its permissions")
            })?;
        }
        Err(_) => {} // new
    }
    check_writable(path, folder(&target))
}

/// Refuses a path at which [`super::folder_of`] could not make a folder.
///
/// # Errors
/// When there is something, or the parent folder does not exist or cannot be written.
pub fn check_new_folder(path: &Path) -> Result<()> {
    let refused = |got| Error::input("write", name(path), "a new folder", got);
    if path.as_os_str().is_empty() {
        return Err(refused("an empty name"));
    }
    let got = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => "one that exists",
        Ok(_) => "a file that exists",
        Err(_) => {
            check_parent(path, folder(path), "a new folder in an existing one")?;
            return check_writable(path, folder(path));
        }
    };
    Err(refused(got).advise("name another one, or remove this one first"))
}

/// Refuses a folder into which nothing can be written; it need not exist, nor those above it.
///
/// # Errors
/// When it, or the nearest of those above it that exists, is no folder or cannot be written.
pub fn check_run_folder(path: &Path) -> Result<()> {
    if path.as_os_str().is_empty() {
        let expected = "a folder, new or with a run";
        return Err(Error::input("write", name(path), expected, "an empty name"));
    }
    let mut nearest = path;
    // A link that leads nowhere is something, too.
    while !nearest.exists() && !nearest.is_symlink() {
        nearest = folder(nearest);
    }
    if !nearest.is_dir() {
        let got = format!("{}, which is no folder", name(nearest));
        return Err(Error::input("write", name(path), "a folder", got).advise("name another one"));
    }
    check_writable(path, nearest)
}

/// Refuses a parent of `path` that is no folder.
fn check_parent(path: &Path, parent: &Path, expected: &str) -> Result<()> {
    let refused = |got| Err(Error::input("write", name(path), expected, got));
    match fs::metadata(parent) {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => refused(format!("{}, which is a file", name(parent))),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let error = refused(format!("no folder {}", name(parent)));
            error.map_err(|error| error.advise("create it first"))
        }
        Err(error) => refused(format!("{}: {error}", name(parent))),
    }
}

/// Tries the folder `parent`: what it says to a file of ours is what it will say to `path`.
fn check_writable(path: &Path, parent: &Path) -> Result<()> {
    Temporary::beside(parent).map(drop).map_err(|error| {
        if !is_refusal(&error) {
            return unwritten(path, error);
        }
        let got = format!("{}: {error}", name(parent));
        let expected = "a folder that can be written";
        Error::input("write", name(path), expected, got).advise("name another one")
    })
}

/// Whether it is the place that refuses, not a disk that is full or fails.
fn is_refusal(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::PermissionDenied
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::NotFound
            | ErrorKind::NotADirectory
            | ErrorKind::InvalidFilename
    )
}

/// `FOLDER/` asks for a folder.
fn ends_as_folder(path: &Path) -> bool {
    let text = path.as_os_str().to_string_lossy();
    text.ends_with(std::path::is_separator)
}

fn name(path: &Path) -> String {
    path.display().to_string()
}
