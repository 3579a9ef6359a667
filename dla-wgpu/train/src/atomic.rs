//! Files that appear whole or not at all.

use std::io::Write;
use std::path::Path;

use dla_core::{Error, Result};

/// Writes `bytes` beside `path`, then renames: a failure or a crash leaves what was there before.
///
/// # Errors
/// When the folder, the disk or the rename refuses.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let persist = || -> std::io::Result<()> {
        let mut file = builder().tempfile_in(folder(path))?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    };
    persist()
        .map_err(|error| Error::file("write", path.display().to_string(), "to be written", error))
}

/// Makes the folder `path`, which does not exist, with what `fill` puts into it: whole or not at all.
///
/// # Errors
/// Those of `fill`, and when the parent folder, the disk or the rename refuses.
pub fn folder_of(path: &Path, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let unwritten =
        |error| Error::file("write", path.display().to_string(), "to be written", error);
    let temporary = directory_builder()
        .tempdir_in(folder(path))
        .map_err(unwritten)?;
    fill(temporary.path())?;
    std::fs::rename(temporary.path(), path).map_err(unwritten)?;
    // Moved away: there is nothing left to remove.
    let _ = temporary.keep();
    Ok(())
}

/// Refuses, before any work is done, a path that [`write()`] could not write.
///
/// # Errors
/// When the folder does not exist, or `path` is a folder or a device.
pub fn check(path: &Path) -> Result<()> {
    let name = || path.display().to_string();
    if !folder(path).is_dir() || path.file_name().is_none() {
        return Err(Error::input(
            "write",
            name(),
            "a file in an existing folder",
            "no such folder",
        )
        .advise("create the folder first"));
    }
    if path.exists() && !path.is_file() {
        return Err(Error::input(
            "write",
            name(),
            "a new name or a regular file",
            "something else",
        ));
    }
    Ok(())
}

/// The folder that `path` lies in.
fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Temporary files with the permissions of ordinary ones, so that the renamed file has them too.
#[cfg(unix)]
fn builder() -> tempfile::Builder<'static, 'static> {
    use std::os::unix::fs::PermissionsExt;
    let mut builder = tempfile::Builder::new();
    builder.permissions(std::fs::Permissions::from_mode(0o666));
    builder
}

/// Temporary files.
#[cfg(not(unix))]
fn builder() -> tempfile::Builder<'static, 'static> {
    tempfile::Builder::new()
}

/// Temporary folders with the permissions of ordinary ones.
#[cfg(unix)]
fn directory_builder() -> tempfile::Builder<'static, 'static> {
    use std::os::unix::fs::PermissionsExt;
    let mut builder = tempfile::Builder::new();
    builder.permissions(std::fs::Permissions::from_mode(0o777));
    builder
}

/// Temporary folders.
#[cfg(not(unix))]
fn directory_builder() -> tempfile::Builder<'static, 'static> {
    tempfile::Builder::new()
}
