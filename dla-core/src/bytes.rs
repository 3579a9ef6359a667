//! Saved bytes, read with suspicion: sessions and samplers.

use crate::error::{Error, Result};

/// Bytes of a checksum.
const CHECKSUM: usize = 4;

/// Puts the checksum of `bytes` behind them: CRC-32 (ISO-HDLC, as in gzip), little-endian.
pub fn seal(mut bytes: Vec<u8>) -> Vec<u8> {
    let checksum = crc32fast::hash(&bytes);
    bytes.extend(checksum.to_le_bytes());
    bytes
}

/// What [`seal`] was given; `op` is the operation that errors name.
///
/// # Errors
/// A file error when a byte has changed since.
pub fn unseal<'a>(op: &'static str, bytes: &'a [u8]) -> Result<&'a [u8]> {
    let Some((bytes, checksum)) = bytes.split_last_chunk::<CHECKSUM>() else {
        let expected = format!("{CHECKSUM} bytes");
        return Err(Error::file(op, "checksum", expected, bytes.len()));
    };
    let (saved, found) = (u32::from_le_bytes(*checksum), crc32fast::hash(bytes));
    if saved == found {
        return Ok(bytes);
    }
    let (expected, got) = (format!("{saved:08x}"), format!("{found:08x}"));
    let error = Error::file(op, "checksum", expected, got);
    Err(error.advise("the bytes have changed since they were saved"))
}

/// The error for saved bytes of another version.
pub fn another_version(op: &'static str, expected: u32, got: u32) -> Error {
    let error = Error::file(op, "version", expected, got);
    error.advise(if got < expected {
        "an earlier version saved it, without a checksum: feed the text again and save it anew"
    } else {
        "a later version saved it, or its bytes have changed"
    })
}

/// The bytes not read yet of what was saved; all numbers are little-endian.
#[derive(Debug)]
pub(crate) struct Bytes<'a> {
    /// What errors call the reader.
    op: &'static str,
    rest: &'a [u8],
}

impl<'a> Bytes<'a> {
    /// Those between `magic` and `version` and the checksum at the end, which [`seal`] has put there.
    ///
    /// # Errors
    /// A file error for another magic, version or checksum.
    pub(crate) fn sealed(
        op: &'static str,
        bytes: &'a [u8],
        magic: &[u8; 4],
        version: u32,
    ) -> Result<Self> {
        let rest = Self::after(op, bytes, magic, version)?.rest;
        let whole = unseal(op, bytes)?;
        let rest = &whole[(bytes.len() - rest.len()).min(whole.len())..];
        Ok(Self { op, rest })
    }

    /// Those after `magic` and `version`, a part of sealed bytes.
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
            other => Err(another_version(op, version, other)),
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
