//! Files and folders that appear whole or not at all.
//!
//! What is being written lies in a folder `.dla-….tmp` beside the output and is renamed once it is whole. That folder is
//! removed when a write fails, by [`abandon`] when a signal ends the process, and, after a crash or a kill, by the next
//! process that writes into the same place (`temporary.rs` says how it knows).

mod check;
mod machine;
mod new_folder;
mod temporary;

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use dla_core::{Error, Result};

pub use self::check::{check, check_new_folder, check_run_folder};
pub use self::new_folder::{NewFolder, Out, Scratch};
use self::temporary::Temporary;
pub use self::temporary::abandon;

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
        let temporary = Temporary::beside(folder(&target))?;
        let mut file = File::create_new(temporary.content())?;
        file.write_all(bytes)?;
        file.sync_all()?;
        drop(file);
        fs::rename(temporary.content(), target)
    };
    persist().map_err(|error| unwritten(path, error))
}

/// Writes what `fill` gives beside `path`, as it comes, then renames as [`write()`] does.
///
/// # Errors
/// Those of `fill`, and when the folder, the disk or the rename refuses.
pub fn stream(path: &Path, fill: impl FnOnce(&mut Out) -> Result<()>) -> Result<()> {
    let unwritten = |error| unwritten(path, error);
    let target = target(path).map_err(unwritten)?;
    let temporary = Temporary::beside(folder(&target)).map_err(unwritten)?;
    new_folder::filled(&temporary.content(), path, fill)?;
    fs::rename(temporary.content(), target).map_err(unwritten)
}

/// Makes the folder `path`, which does not exist, with what `fill` puts into it: whole or not at all.
///
/// # Errors
/// Those of `fill`, and when the parent folder, the disk or the rename refuses.
pub fn folder_of(path: &Path, fill: impl FnOnce(&NewFolder) -> Result<()>) -> Result<()> {
    let unwritten = |error| unwritten(path, error);
    let temporary = Temporary::beside(folder(path)).map_err(unwritten)?;
    fs::create_dir(temporary.content()).map_err(unwritten)?;
    fill(&NewFolder::named(temporary.content(), path))?;
    fs::rename(temporary.content(), path).map_err(unwritten)
}

/// Removes the folder `path` with all that it holds. It loses its name first, so that nobody finds a part of it there.
///
/// # Errors
/// When the rename or the removal is refused.
pub fn remove_folder(path: &Path) -> Result<()> {
    let remove = || -> io::Result<()> {
        let temporary = Temporary::beside(folder(path))?;
        fs::rename(path, temporary.content())?;
        fs::remove_dir_all(temporary.content())
    };
    remove()
        .map_err(|error| Error::file("write", path.display().to_string(), "to be removed", error))
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
    let full = matches!(
        error.kind(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded
    );
    let error = Error::file("write", path.display().to_string(), "to be written", error);
    match full {
        true => error.advise("free some space, or name a place on another disk"),
        false => error,
    }
}

/// The folder that `path` lies in.
fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
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

    /// Whoever looks at the name while a large folder is removed finds all of it or nothing.
    #[test]
    fn a_folder_loses_its_name_before_its_files() {
        const FILES: usize = 3000;
        let folder = tempfile::tempdir().expect("a folder");
        let old = folder.path().join("old");
        std::fs::create_dir(&old).expect("a folder");
        for i in 0..FILES {
            std::fs::write(old.join(i.to_string()), "").expect("a file");
        }
        // The last file that a removal takes is not known: every one is looked for.
        let removal = std::thread::spawn({
            let old = old.clone();
            move || super::remove_folder(&old)
        });
        while !removal.is_finished() {
            let whole = (0..FILES).all(|i| old.join(i.to_string()).exists());
            assert!(whole || !old.exists(), "a part of the folder has its name");
        }
        removal.join().expect("no panic").expect("removed");
        let left = std::fs::read_dir(&folder).expect("a folder").count();
        assert_eq!(left, 0);
    }
}
