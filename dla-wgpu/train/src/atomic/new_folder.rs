//! Folders that are filled before they have their name.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use dla_core::{Result, file};

use super::temporary::Temporary;
use super::unwritten;

/// A folder without files, to be filled.
#[derive(Debug)]
pub struct NewFolder {
    /// Where it lies.
    place: PathBuf,
    /// What errors call it: the name that it gets once it is whole.
    name: PathBuf,
}

impl NewFolder {
    pub(super) fn named(place: PathBuf, name: &Path) -> Self {
        let name = name.to_owned();
        Self { place, name }
    }

    /// The folder `path`, which exists and keeps its name.
    pub fn in_place(path: &Path) -> Self {
        Self::named(path.to_owned(), path)
    }

    /// Makes the file `name`: `fill` writes into it, and it is on the disk when this returns.
    ///
    /// # Errors
    /// Those of `fill`, and when the folder or the disk refuses: such an error names the file.
    pub fn file(&self, name: &str, fill: impl FnOnce(&mut Out) -> Result<()>) -> Result<()> {
        filled(&self.place.join(name), &self.name.join(name), fill)
    }

    /// Makes the file `name` of `bytes`.
    ///
    /// # Errors
    /// As [`NewFolder::file`].
    pub fn bytes(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.file(name, |out| {
            out.write_all(bytes)
                .map_err(|error| unwritten(&self.name.join(name), error))
        })
    }

    /// Copies the regular file `from` to the file `name`.
    ///
    /// # Errors
    /// As [`NewFolder::file`], and when `from` cannot be read.
    pub fn copy(&self, from: &Path, name: &str) -> Result<()> {
        let mut source = file::open("write", from)?;
        self.file(name, |out| match io::copy(&mut source, out) {
            Ok(_) => Ok(()),
            Err(error) => Err(unwritten(&self.name.join(name), error)),
        })
    }
}

/// Makes the file `place`, which errors call `name`: `fill` writes into it, and it is on the disk when this returns.
pub(super) fn filled(
    place: &Path,
    name: &Path,
    fill: impl FnOnce(&mut Out) -> Result<()>,
) -> Result<()> {
    let unwritten = |error| unwritten(name, error);
    let file = File::create_new(place).map_err(unwritten)?;
    let mut out = Out {
        file: BufWriter::new(file),
        failure: None,
    };
    let filled = fill(&mut out);
    if let Some(error) = out.failure {
        return Err(unwritten(error));
    }
    filled?;
    let ended = out.file.flush();
    let ended = ended.and_then(|()| out.file.get_ref().sync_all());
    ended.map_err(unwritten)
}

/// A file while it is written. It remembers why the disk refused, whatever becomes of that error on its
/// way back.
#[derive(Debug)]
pub struct Out {
    file: BufWriter<File>,
    failure: Option<io::Error>,
}

impl Out {
    fn noted<T>(&mut self, done: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &done
            && error.kind() != ErrorKind::Interrupted
        {
            let again = match error.raw_os_error() {
                Some(code) => io::Error::from_raw_os_error(code),
                None => io::Error::new(error.kind(), error.to_string()),
            };
            self.failure = Some(again);
        }
        done
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let done = self.file.write(bytes);
        self.noted(done)
    }

    fn flush(&mut self) -> io::Result<()> {
        let done = self.file.flush();
        self.noted(done)
    }
}

/// A folder among the system's temporary ones, removed when it is dropped.
#[derive(Debug)]
pub struct Scratch {
    temporary: Temporary,
}

impl Scratch {
    /// A new one.
    ///
    /// # Errors
    /// When the system's folder for temporary files, or its disk, refuses.
    pub fn new() -> Result<Self> {
        let system = std::env::temp_dir();
        let unwritten = |error| unwritten(&system, error);
        let temporary = Temporary::beside(&system).map_err(unwritten)?;
        std::fs::create_dir(temporary.content()).map_err(unwritten)?;
        Ok(Self { temporary })
    }

    /// Where it lies.
    pub fn path(&self) -> PathBuf {
        self.temporary.content()
    }
}
