//! Saved bytes, read with suspicion: sessions and samplers.

use crate::error::{Error, Result};

/// The bytes not read yet of what was saved; all numbers are little-endian.
#[derive(Debug)]
pub(crate) struct Bytes<'a> {
    /// What errors call the reader.
    op: &'static str,
    rest: &'a [u8],
}

impl<'a> Bytes<'a> {
    /// Those after `magic` and `version`.
    ///
    /// # Errors
    /// A file error for another magic or version.
    pub(crate) fn after(
        op: &'static str,
        bytes: &'a [u8],
        magic: &[u8; 4],
        version: u32,
    ) -> Result<Self> {
        let mut bytes = Self { op, rest: bytes };
        if bytes.take("magic")? != *magic {
            let expected = String::from_utf8_lossy(magic);
            return Err(bytes.refuse("magic", expected, "other bytes"));
        }
        match bytes.word("version")? {
            own if own == version => Ok(bytes),
            other => Err(bytes.refuse("version", version, other)),
        }
    }

    /// The next `N` bytes.
    ///
    /// # Errors
    /// A file error where fewer are left, as of everything that follows.
    pub(crate) fn take<const N: usize>(&mut self, argument: &'static str) -> Result<[u8; N]> {
        match self.rest.split_first_chunk() {
            Some((bytes, rest)) => {
                self.rest = rest;
                Ok(*bytes)
            }
            None => Err(self.short(argument, N)),
        }
    }

    /// The next `len` bytes.
    pub(crate) fn slice(&mut self, argument: &'static str, len: usize) -> Result<&'a [u8]> {
        match self.rest.split_at_checked(len) {
            Some((bytes, rest)) => {
                self.rest = rest;
                Ok(bytes)
            }
            None => Err(self.short(argument, len)),
        }
    }

    /// The next `len` numbers.
    pub(crate) fn floats(&mut self, argument: &'static str, len: usize) -> Result<Vec<f32>> {
        let bytes = self.slice(argument, len.saturating_mul(4))?;
        let floats = bytes.as_chunks().0.iter();
        Ok(floats.map(|&b| f32::from_le_bytes(b)).collect())
    }

    /// The next u32.
    pub(crate) fn word(&mut self, argument: &'static str) -> Result<u32> {
        self.take(argument).map(u32::from_le_bytes)
    }

    /// The next u64.
    pub(crate) fn long(&mut self, argument: &'static str) -> Result<u64> {
        self.take(argument).map(u64::from_le_bytes)
    }

    /// The next u64, which must be a size of this platform.
    pub(crate) fn size(&mut self, argument: &'static str) -> Result<usize> {
        let size = self.long(argument)?;
        let refused = |_| self.refuse(argument, "a size of this platform", size);
        usize::try_from(size).map_err(refused)
    }

    /// All that is left.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Refuses bytes after the last that have a meaning.
    pub(crate) fn end(&self) -> Result<()> {
        match self.rest.len() {
            0 => Ok(()),
            more => Err(self.refuse("bytes", "no more", more)),
        }
    }

    /// A file error about these bytes.
    pub(crate) fn refuse(
        &self,
        argument: &'static str,
        expected: impl ToString,
        got: impl ToString,
    ) -> Error {
        Error::file(self.op, argument, expected, got)
    }

    fn short(&self, argument: &'static str, len: usize) -> Error {
        self.refuse(argument, format!("{len} bytes"), self.rest.len())
    }
}
