//! Files that appear whole or not at all.

use std::io::Write;
use std::path::Path;

use dla_core::{Error, Result};

/// Writes `bytes` beside `path`, then renames: a failure or a crash leaves what was there before. A symbolic link
/// stays one; the file that it names is replaced.
///
/// # Errors
/// When the folder, the disk or the rename refuses.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let target = std::fs::canonicalize(path);
    let path = target.as_deref().unwrap_or(path); // not there yet
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

#[cfg(all(test, unix))]
mod tests {
    #[test]
    fn a_link_stays_and_what_it_names_is_written() {
        let (folder, other) = (tempfile::tempdir(), tempfile::tempdir());
        let (folder, other) = (folder.expect("a folder"), other.expect("a folder"));
        let (link, file) = (folder.path().join("link"), other.path().join("file"));
        std::fs::write(&file, "old").expect("a file");
        std::os::unix::fs::symlink(&file, &link).expect("a link");
        super::write(&link, b"new").expect("written");
        assert!(link.is_symlink());
        assert_eq!(std::fs::read(&file).expect("a file"), b"new");
        let left =
            |folder: &tempfile::TempDir| std::fs::read_dir(folder).expect("a folder").count();
        assert_eq!([left(&folder), left(&other)], [1, 1], "nothing else");
    }
}
