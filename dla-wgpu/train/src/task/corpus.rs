//! Plain texts, part of each held out.

use std::fs;
use std::path::{Path, PathBuf};

use dla_core::{Error, Result, file};
use dla_text::Tokenizer;

use super::Split;
use crate::random::mix;

/// One of how many bytes of every work is held out: the last 5%.
const HELD: usize = 20;
/// The longest file that is read, 4 GiB.
const MAX_WORK: u64 = 4 << 30;

/// Texts, read once.
#[derive(Clone, Debug)]
pub struct Corpus {
    works: Vec<Work>,
}

/// One file.
#[derive(Clone, Debug)]
struct Work {
    path: PathBuf,
    bytes: Vec<u8>,
    /// Where the part that is held out begins.
    held: usize,
}

impl Corpus {
    /// Reads files, and the files with the ending `.txt` in folders and their folders, by name.
    ///
    /// # Errors
    /// For a path that cannot be read, and no text at all.
    pub fn open(paths: &[PathBuf]) -> Result<Self> {
        let mut files = Vec::new();
        for path in paths {
            if path.is_dir() {
                gather(path, &mut files)?;
            } else {
                files.push(path.clone());
            }
        }
        let works = files.into_iter().map(Work::read);
        let works: Vec<_> = works.collect::<Result<_>>()?;
        if works.iter().all(|work| work.bytes.is_empty()) {
            let names: Vec<_> = paths
                .iter()
                .map(|path| path.display().to_string())
                .collect();
            let expected = "files of text, or folders with files *.txt";
            let got = format!("no text in [{}]", names.join(", "));
            return Err(Error::input("train", "data.files", expected, got));
        }
        Ok(Self { works })
    }

    /// The bytes of one part of every work, in order.
    pub fn parts(&self, split: Split) -> impl Iterator<Item = &[u8]> {
        self.works.iter().map(move |work| work.part(split))
    }

    /// The tokens of one part of every work, in order.
    ///
    /// # Errors
    /// For a work that the tokenizer does not take, which is named.
    pub fn tokens(&self, split: Split, tokenizer: &Tokenizer) -> Result<Vec<Vec<u32>>> {
        let encode = |work: &Work| {
            let ids = tokenizer.encode_bytes(work.part(split));
            ids.map_err(|error| {
                let path = work.path.display().to_string();
                Error::input("train", path, "text for the tokenizer", error)
            })
        };
        self.works.iter().map(encode).collect()
    }

    /// A number that tells these texts from others.
    pub fn fingerprint(&self) -> u64 {
        let mut sum = 0;
        for work in &self.works {
            sum = mix(sum ^ work.bytes.len() as u64);
            for word in work.bytes.chunks(8) {
                let mut bytes = [0; 8];
                bytes[..word.len()].copy_from_slice(word);
                sum = mix(sum ^ u64::from_le_bytes(bytes));
            }
        }
        sum
    }
}

impl Work {
    fn read(path: PathBuf) -> Result<Self> {
        let bytes = file::read("train", &path, MAX_WORK)?;
        let mut held = bytes.len() - bytes.len() / HELD;
        // Not inside a character.
        while bytes.get(held).is_some_and(|byte| byte & 0xC0 == 0x80) {
            held += 1;
        }
        Ok(Self { path, bytes, held })
    }

    fn part(&self, split: Split) -> &[u8] {
        match split {
            Split::Train => &self.bytes[..self.held],
            Split::Held => &self.bytes[self.held..],
        }
    }
}

/// Adds the texts of `folder` and of the folders in it, by name.
fn gather(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(folder).map_err(|error| unread(folder, error))?;
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry.map_err(|error| unread(folder, error))?.path());
    }
    paths.sort();
    for path in paths {
        if path.is_dir() {
            gather(&path, files)?;
        } else if path.extension().is_some_and(|ending| ending == "txt") {
            files.push(path);
        }
    }
    Ok(())
}

fn unread(path: &Path, error: std::io::Error) -> Error {
    let path = path.display().to_string();
    Error::input("train", path, "a text that can be read", error)
}

#[cfg(test)]
mod tests {
    use super::Corpus;
    use crate::task::Split;

    #[test]
    fn the_last_twentieth_of_every_file_is_held_out() {
        let folder = tempfile::tempdir().expect("a folder");
        let inner = folder.path().join("b");
        std::fs::create_dir(&inner).expect("a folder");
        std::fs::write(folder.path().join("a.txt"), "x".repeat(95) + "yyyyy").expect("a file");
        // The cut would fall inside the second é.
        std::fs::write(inner.join("c.txt"), "z".repeat(54) + "éé" + "wv").expect("a file");
        std::fs::write(inner.join("d.bin"), "not text").expect("a file");
        let corpus = Corpus::open(&[folder.path().to_owned()]).expect("texts");
        let held: Vec<_> = corpus.parts(Split::Held).collect();
        assert_eq!(held, [&b"yyyyy"[..], b"wv"]);
        let train: Vec<_> = corpus.parts(Split::Train).map(<[u8]>::len).collect();
        assert_eq!(train, [95, 58]);
        let before = corpus.fingerprint();
        std::fs::write(inner.join("c.txt"), "other").expect("a file");
        let corpus = Corpus::open(&[folder.path().to_owned()]).expect("texts");
        assert_ne!(corpus.fingerprint(), before);
    }

    #[test]
    fn nothing_to_read_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        for path in [folder.path().to_owned(), folder.path().join("none.txt")] {
            let error = Corpus::open(&[path]).expect_err("no text");
            assert!(error.is_input(), "{error}");
        }
    }
}
