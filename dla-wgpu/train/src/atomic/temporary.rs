//! Temporary folders that know whether their owner is alive.
//!
//! A folder `.dla-….tmp` holds `content`, what is being written, and `owner`, a file that the writing process keeps locked
//! and that names the process and its machine. The lock ends with the process, however that ends, and says nothing of
//! process ids, which are used again. So whoever writes into the same place removes a folder whose lock is free, if the
//! machine is its own: where a network's file system does not pass locks on, a lock that seems free on another machine proves
//! nothing, and the folder stays. It stays, too, where the file system knows no locks.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::machine;

const PREFIX: &str = ".dla-";
const SUFFIX: &str = ".tmp";
/// The file whose lock says that the owner is alive.
const OWNER: &str = "owner";
/// What is being written.
const CONTENT: &str = "content";
/// Longer than any `owner` is.
const MAX_OWNER: u64 = 4096;
/// How often a folder is begun anew that another process took for an abandoned one before it was locked.
const ATTEMPTS: usize = 16;

/// The folders of this process.
#[derive(Default)]
struct Live {
    /// Each with its locked file.
    folders: HashMap<PathBuf, File>,
    /// Places that were rid of abandoned folders.
    swept: HashSet<PathBuf>,
    /// The process is about to end: nothing more is written.
    abandoned: bool,
}

static LIVE: LazyLock<Mutex<Live>> = LazyLock::new(Mutex::default);

/// The folders of this process; waits for the end of the process once it is about to end.
fn live() -> MutexGuard<'static, Live> {
    let live = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
    if live.abandoned {
        drop(live);
        loop {
            thread::park();
        }
    }
    live
}

/// Removes what this process has not finished writing, and lets it write nothing more: threads that try wait for its end. To
/// be called once, on a signal, before the process ends.
pub fn abandon() {
    let mut live = live();
    live.abandoned = true;
    for (folder, lock) in live.folders.drain() {
        remove(&folder, lock);
    }
}

/// A temporary folder, removed when it is dropped.
#[derive(Debug)]
pub(super) struct Temporary {
    folder: PathBuf,
}

impl Temporary {
    /// A new one in the folder `place`, which is rid of abandoned ones first.
    pub(super) fn beside(place: &Path) -> io::Result<Self> {
        let mut live = live();
        if live.swept.insert(place.to_owned()) {
            sweep(place);
        }
        for _ in 0..ATTEMPTS {
            let folder = match new_folder(place) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                folder => folder?,
            };
            match locked(&folder) {
                Ok(Some(lock)) => {
                    live.folders.insert(folder.clone(), lock);
                    return Ok(Self { folder });
                }
                Ok(None) => {}
                Err(error) => {
                    let _ = fs::remove_dir_all(&folder);
                    return Err(error);
                }
            }
        }
        let told = "temporary folders vanish as soon as they are made";
        Err(io::Error::other(told))
    }

    /// The file or folder to be written and renamed, which does not exist yet.
    pub(super) fn content(&self) -> PathBuf {
        self.folder.join(CONTENT)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(lock) = live().folders.remove(&self.folder) {
            remove(&self.folder, lock);
        }
    }
}

/// Makes a folder with a random name, which only its owner may read before it is whole.
fn new_folder(place: &Path) -> io::Result<PathBuf> {
    let random = RandomState::new().build_hasher().finish();
    let folder = place.join(format!("{PREFIX}{random:016x}{SUFFIX}"));
    #[allow(unused_mut)] // systems without modes
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(&folder)?;
    Ok(folder)
}

/// Makes the file `owner` of a new folder and locks it; none if another process came in between.
fn locked(folder: &Path) -> io::Result<Option<File>> {
    let path = folder.join(OWNER);
    let mut file = match File::create_new(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => return Ok(None),
        // A file system without locks.
        Err(fs::TryLockError::Error(_)) => {}
    }
    let process = format!("process {}", std::process::id());
    let lines = [vec![process], machine::lines()].concat().join("\n") + "\n";
    file.write_all(lines.as_bytes())?;
    Ok(path.exists().then_some(file))
}

/// Removes the abandoned folders in `place`.
fn sweep(place: &Path) {
    let Ok(entries) = fs::read_dir(place) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder && name.starts_with(PREFIX) && name.ends_with(SUFFIX) {
            remove_abandoned(&entry.path());
        }
    }
}

/// Removes `folder` if its owner is gone, as far as that can be known.
fn remove_abandoned(folder: &Path) {
    let path = folder.join(OWNER);
    match fs::symlink_metadata(&path) {
        Ok(metadata) if metadata.is_file() => {}
        // Not begun or all but removed. Whoever is about to put a file there makes another folder.
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let _ = fs::remove_dir(folder);
            return;
        }
        _ => return,
    }
    let Ok(file) = OpenOptions::new().read(true).write(true).open(&path) else {
        return;
    };
    if file.try_lock().is_err() {
        return;
    }
    let mut owner = String::new();
    if (&file).take(MAX_OWNER).read_to_string(&mut owner).is_err() {
        return;
    }
    // Nothing is written before there is an owner.
    if owner.is_empty() || machine::is_named_in(&owner) {
        remove(folder, file);
    }
}

/// Removes a folder whose lock this process holds, the locked file last: until then another process can end what this one
/// does not.
fn remove(folder: &Path, lock: File) {
    let content = folder.join(CONTENT);
    for _ in 0..ATTEMPTS {
        // Another thread may be making a file in it; the next time it finds no folder.
        let removed = match fs::symlink_metadata(&content) {
            Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(&content),
            Ok(_) => fs::remove_file(&content),
            Err(_) => Ok(()),
        };
        if removed.is_ok() {
            break;
        }
        thread::sleep(Duration::from_millis(1));
    }
    // Systems that do not remove open files.
    drop(lock);
    if !content.exists() {
        let _ = fs::remove_file(folder.join(OWNER));
        let _ = fs::remove_dir(folder);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::{Temporary, machine, sweep};

    /// A folder as a killed process leaves it, with this text in `owner`.
    fn abandoned(place: &Path, name: &str, owner: Option<&str>) -> PathBuf {
        let folder = place.join(format!(".dla-{name}.tmp"));
        fs::create_dir(&folder).expect("a folder");
        if let Some(owner) = owner {
            fs::write(folder.join("owner"), owner).expect("a file");
        }
        folder
    }

    #[test]
    fn what_nobody_owns_is_removed_and_nothing_else() {
        let place = tempfile::tempdir().expect("a folder");
        let here = format!("process 1\n{}\n", machine::lines().join("\n"));
        let gone = abandoned(place.path(), "gone", Some(&here));
        fs::create_dir_all(gone.join("content/inner")).expect("a folder");
        let gone_too = abandoned(place.path(), "gone-too", Some(""));
        let begun = abandoned(place.path(), "begun", None);
        let foreign = abandoned(
            place.path(),
            "foreign",
            Some("process 1\nboot x\nhost y z\n"),
        );
        let unknown = abandoned(place.path(), "unknown", None);
        fs::write(unknown.join("content"), "?").expect("a file");
        let other = place.path().join(".dla-other");
        fs::write(&other, "").expect("a file");
        let live = Temporary::beside(place.path()).expect("a folder");
        fs::write(live.content(), "unfinished").expect("a file");
        sweep(place.path());
        for folder in [gone, gone_too, begun] {
            assert!(!folder.exists(), "{}", folder.display());
        }
        for path in [&foreign, &unknown, &other, &live.content()] {
            assert!(path.exists(), "{}", path.display());
        }
        drop(live);
        let left = fs::read_dir(&place).expect("a folder").count();
        assert_eq!(left, 3, "the foreign, the unknown and the other one");
    }
}
