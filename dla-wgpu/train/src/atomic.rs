//! Files that appear whole or not at all.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use dla_core::{Error, Result, file};

/// The most symbolic links that are followed one after the other; Linux follows as many.
const MAX_LINKS: usize = 40;

/// Writes `bytes` beside `path`, then renames: a failure or a crash leaves what was there before. A symbolic link
/// stays one; the file that it names is replaced, or made if it is not there.
///
/// # Errors
/// When the folder, the disk or the rename refuses.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let persist = || -> io::Result<()> {
        let target = target(path)?;
        let mut file = builder().tempfile_in(folder(&target))?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(target)?;
        Ok(())
    };
    persist().map_err(|error| unwritten(path, error))
}

/// Writes what `fill` gives beside `path`, as it comes, then renames as [`write()`] does.
///
/// # Errors
/// Those of `fill`, and when the folder, the disk or the rename refuses.
pub fn stream(path: &Path, fill: impl FnOnce(&mut BufWriter<File>) -> Result<()>) -> Result<()> {
    let unwritten = |error| unwritten(path, error);
    let target = target(path).map_err(unwritten)?;
    let file = builder().tempfile_in(folder(&target)).map_err(unwritten)?;
    let (file, temporary) = file.into_parts();
    let mut out = BufWriter::new(file);
    fill(&mut out)?;
    let ended = out.flush().and_then(|()| out.get_ref().sync_all());
    ended.map_err(unwritten)?;
    temporary
        .persist(target)
        .map_err(|refused| unwritten(refused.error))
}

/// Makes the folder `path`, which does not exist, with what `fill` puts into it: whole or not at all.
///
/// # Errors
/// Those of `fill`, and when the parent folder, the disk or the rename refuses.
pub fn folder_of(path: &Path, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let unwritten = |error| unwritten(path, error);
    let temporary = directory_builder()
        .tempdir_in(folder(path))
        .map_err(unwritten)?;
    fill(temporary.path())?;
    std::fs::rename(temporary.path(), path).map_err(unwritten)?;
    // Moved away: there is nothing left to remove.
    let _ = temporary.keep();
    Ok(())
}

/// Makes the file `path`, which does not exist, in a folder that is not in its place yet: `fill` writes into it, and
/// it is on the disk when this returns.
///
/// # Errors
/// Those of `fill`, and when the folder or the disk refuses.
pub fn new_file(path: &Path, fill: impl FnOnce(&mut BufWriter<File>) -> Result<()>) -> Result<()> {
    let unwritten = |error| unwritten(path, error);
    let mut out = BufWriter::new(File::create_new(path).map_err(unwritten)?);
    fill(&mut out)?;
    let ended = out.flush().and_then(|()| out.get_ref().sync_all());
    ended.map_err(unwritten)
}

/// Makes the file `path` of `bytes`, as [`new_file`].
///
/// # Errors
/// As [`new_file`].
pub fn new_bytes(path: &Path, bytes: &[u8]) -> Result<()> {
    new_file(path, |out| {
        out.write_all(bytes).map_err(|error| unwritten(path, error))
    })
}

/// Copies the regular file `from` to the file `to`, which is made as by [`new_file`].
///
/// # Errors
/// As [`new_file`], and when `from` cannot be read.
pub fn copy(from: &Path, to: &Path) -> Result<()> {
    let mut source = file::open("write", from)?;
    new_file(to, |out| match io::copy(&mut source, out) {
        Ok(_) => Ok(()),
        Err(error) => Err(unwritten(to, error)),
    })
}

/// Refuses, before any work is done, a path that [`write()`] could not write.
///
/// # Errors
/// When the folder does not exist, or `path` is a folder or a device.
pub fn check(path: &Path) -> Result<()> {
    let name = || path.display().to_string();
    let expected = "a file in an existing folder";
    let target = target(path).map_err(|error| Error::input("write", name(), expected, error))?;
    if !folder(&target).is_dir() || target.file_name().is_none() {
        let error = Error::input("write", name(), expected, "no such folder");
        return Err(error.advise("create the folder first"));
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

/// The path at the end of the symbolic links that begin at `path`, whether there is a file or not.
fn target(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        match fs::read_link(&path) {
            Ok(next) => path = folder(&path).join(next),
            Err(_) => return Ok(path), // no link
        }
    }
    Err(io::Error::other("too many symbolic links"))
}

fn unwritten(path: &Path, error: io::Error) -> Error {
    Error::file("write", path.display().to_string(), "to be written", error)
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

    #[test]
    fn a_link_to_a_file_that_is_not_there_stays_too() {
        let folder = tempfile::tempdir().expect("a folder");
        let inner = folder.path().join("inner");
        std::fs::create_dir(&inner).expect("a folder");
        let [first, second] = ["first", "inner/second"].map(|name| folder.path().join(name));
        std::os::unix::fs::symlink("inner/second", &first).expect("a link");
        std::os::unix::fs::symlink("../file", &second).expect("a link");
        super::check(&first).expect("a file can be made there");
        super::write(&first, b"new").expect("written");
        assert!(first.is_symlink() && second.is_symlink());
        let file = std::fs::read(folder.path().join("file"));
        assert_eq!(file.expect("a file"), b"new");
    }

    #[test]
    fn links_that_lead_nowhere_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let [round, lost] = ["round", "lost"].map(|name| folder.path().join(name));
        std::os::unix::fs::symlink("round", &round).expect("a link");
        std::os::unix::fs::symlink("none/file", &lost).expect("a link");
        for link in [round, lost] {
            super::check(&link).expect_err("no place for a file");
            super::write(&link, b"new").expect_err("no place for a file");
            assert!(link.is_symlink());
        }
    }
}
