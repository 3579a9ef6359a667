//! Safetensors files, read with suspicion: from memory, or tensor by tensor from a file.

pub(crate) mod unique;
mod write;

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use half::{bf16, f16};
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};

use self::unique::UniqueNames;
pub use self::write::write;
use crate::error::{Error, Result};
use crate::file;

/// Bytes that hold the header's length at the start of a file.
const PREFIX: usize = 8;
/// The longest header that is read.
const MAX_HEADER: usize = 100_000_000;

/// A number that tensors hold, as little-endian bytes at any alignment.
pub trait Element: Copy {
    /// Its name in the header.
    const DTYPE: Dtype;
    /// The values of a tensor's bytes, copied.
    fn decode(bytes: &[u8]) -> Vec<Self>;
    /// The bytes of a tensor's values.
    fn encode(values: &[Self]) -> Vec<u8>;
}

macro_rules! element {
    ($type:ty, $dtype:ident) => {
        impl Element for $type {
            const DTYPE: Dtype = Dtype::$dtype;
            fn decode(bytes: &[u8]) -> Vec<Self> {
                let (values, _) = bytes.as_chunks::<{ size_of::<$type>() }>();
                values
                    .iter()
                    .map(|value| Self::from_le_bytes(*value))
                    .collect()
            }
            fn encode(values: &[Self]) -> Vec<u8> {
                values
                    .iter()
                    .flat_map(|value| value.to_le_bytes())
                    .collect()
            }
        }
    };
}
element!(f32, F32);
element!(f16, F16);
element!(bf16, BF16);
element!(i32, I32);
element!(i64, I64);
element!(u8, U8);

/// Where a file's bytes are.
#[derive(Debug)]
enum Source {
    Memory(Vec<u8>),
    Disk(Mutex<File>),
}

impl Source {
    /// `len` bytes from `start` on.
    fn bytes(&self, start: usize, len: usize) -> io::Result<Cow<'_, [u8]>> {
        match self {
            Self::Memory(bytes) => {
                let part = bytes.get(start..).and_then(|rest| rest.get(..len));
                let part = part.ok_or(io::ErrorKind::UnexpectedEof)?;
                Ok(Cow::Borrowed(part))
            }
            Self::Disk(file) => {
                let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
                file.seek(SeekFrom::Start(start as u64))?;
                let mut bytes = vec![0; len];
                file.read_exact(&mut bytes)?;
                Ok(Cow::Owned(bytes))
            }
        }
    }

    fn len(&self) -> io::Result<u64> {
        match self {
            Self::Memory(bytes) => Ok(bytes.len() as u64),
            Self::Disk(file) => {
                let file = file.lock().unwrap_or_else(PoisonError::into_inner);
                file.metadata().map(|metadata| metadata.len())
            }
        }
    }
}

/// A safetensors file, its header checked before any tensor is looked at.
///
/// ```
/// use dla_core::tensors::TensorFile;
/// let header = br#"{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
/// let bytes = [&(header.len() as u64).to_le_bytes()[..], header, &1.5f32.to_le_bytes()].concat();
/// let file = TensorFile::parse("example".into(), bytes)?;
/// assert_eq!(file.require("x")?.values::<f32>("[N]", &[1])?, [1.5]);
/// # Ok::<(), dla_core::Error>(())
/// ```
#[derive(Debug)]
pub struct TensorFile {
    name: String,
    header: Metadata,
    source: Source,
    data: usize,
}

impl TensorFile {
    /// Reads a whole file into memory.
    ///
    /// # Errors
    /// When it cannot be read or is not a well-formed safetensors file.
    pub fn read(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        Self::parse(name, file::read("read", path, u64::MAX)?)
    }

    /// Opens a file of which each tensor is read when it is asked for, so that memory never holds
    /// the whole of it.
    ///
    /// # Errors
    /// When it cannot be opened or is not a well-formed safetensors file.
    pub fn open(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let file = file::open("read", path)?;
        Self::new(name, Source::Disk(Mutex::new(file)))
    }

    /// Takes a file's bytes; `name` is what errors call it.
    ///
    /// # Errors
    /// When the bytes are not a well-formed safetensors file.
    pub fn parse(name: String, bytes: Vec<u8>) -> Result<Self> {
        Self::new(name, Source::Memory(bytes))
    }

    fn new(name: String, source: Source) -> Result<Self> {
        match read_header(&source) {
            Ok((data, header)) => Ok(Self {
                name,
                header,
                source,
                data,
            }),
            Err(fault) => Err(
                Error::input("read", name, "a well-formed safetensors file", fault)
                    .advise("write it again with a safetensors library"),
            ),
        }
    }

    /// What errors call the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The names of its tensors, in the order of their bytes.
    pub fn names(&self) -> Vec<String> {
        self.header.offset_keys()
    }

    /// The words of `__metadata__`.
    pub fn words(&self) -> HashMap<&str, &str> {
        let words = self.header.metadata().iter().flatten();
        words
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect()
    }

    /// The tensor `name`, if the file has it.
    pub fn get<'a>(&'a self, name: &'a str) -> Option<Tensor<'a>> {
        let info = self.header.info(name)?;
        Some(Tensor {
            file: self,
            name,
            info,
        })
    }

    /// The tensor `name`, which the caller cannot do without.
    ///
    /// # Errors
    /// When the file does not have it.
    pub fn require<'a>(&'a self, name: &'a str) -> Result<Tensor<'a>> {
        self.get(name).ok_or_else(|| {
            let found = listed(self.header.offset_keys());
            self.refuse(
                format!("tensor {name}"),
                "to be there",
                format!("only {found}"),
            )
        })
    }

    /// Refuses names that no reader of the file would look at: a misspelt one would be ignored in silence.
    ///
    /// # Errors
    /// When the file holds a tensor or a metadata word outside the two lists.
    pub fn allow(&self, tensors: &[&str], words: &[&str]) -> Result<()> {
        let unknown = |names: Vec<String>, known: &[&str]| {
            names
                .into_iter()
                .find(|name| !known.contains(&name.as_str()))
        };
        if let Some(name) = unknown(self.header.offset_keys(), tensors) {
            return Err(self.refuse("tensors".into(), listed(tensors), name));
        }
        let mut found: Vec<_> = self.words().into_keys().map(str::to_owned).collect();
        found.sort();
        match unknown(found, words) {
            Some(name) => Err(self.refuse("metadata".into(), listed(words), name)),
            None => Ok(()),
        }
    }

    /// An error about `part` of this file.
    pub fn refuse(&self, part: String, expected: impl ToString, got: impl ToString) -> Error {
        refuse(&self.name, part, expected, got)
    }
}

/// One tensor of a [`TensorFile`].
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    file: &'a TensorFile,
    name: &'a str,
    info: &'a TensorInfo,
}

impl<'a> Tensor<'a> {
    /// Its name.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// Bytes of its values in the file.
    pub fn byte_len(&self) -> usize {
        self.info.data_offsets.1 - self.info.data_offsets.0
    }

    /// Its type.
    pub fn dtype(&self) -> Dtype {
        self.info.dtype
    }

    /// Its shape.
    pub fn shape(&self) -> &'a [usize] {
        &self.info.shape
    }

    /// Its sizes, which must be as many as `letters`.
    ///
    /// # Errors
    /// When the rank differs.
    pub fn sizes<const RANK: usize>(&self, letters: &str) -> Result<[usize; RANK]> {
        let sizes = self.info.shape.as_slice().try_into();
        sizes.map_err(|_| self.refuse(format!("shape {letters}"), format!("{:?}", self.info.shape)))
    }

    /// Its values, which must have the shape `shape`; `letters` names the sizes in errors.
    ///
    /// # Errors
    /// When type or shape differ.
    pub fn values<E: Element>(&self, letters: &str, shape: &[usize]) -> Result<Vec<E>> {
        if self.info.dtype != E::DTYPE {
            return Err(self.refuse(E::DTYPE, self.info.dtype).advise("convert it"));
        }
        if self.info.shape != shape {
            let expected = format!("shape {letters} = {shape:?}");
            return Err(self.refuse(expected, format!("{:?}", self.info.shape)));
        }
        Ok(E::decode(&self.bytes()?))
    }

    /// Its bytes, little-endian, at any alignment.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn bytes(&self) -> Result<Cow<'a, [u8]>> {
        let (start, end) = self.info.data_offsets;
        let bytes = self.file.source.bytes(self.file.data + start, end - start);
        bytes.map_err(|error| {
            let part = format!("{}, tensor {}", self.file.name, self.name);
            Error::file("read", part, "to be readable", error)
        })
    }

    /// As [`values`](Self::values) for f32, taking f16 and bf16 too and widening them.
    ///
    /// # Errors
    /// When type or shape differ.
    pub fn widened(&self, letters: &str, shape: &[usize]) -> Result<Vec<f32>> {
        match self.info.dtype {
            Dtype::F16 => Ok(widen(&self.values::<f16>(letters, shape)?)),
            Dtype::BF16 => Ok(widen(&self.values::<bf16>(letters, shape)?)),
            _ => self.values(letters, shape),
        }
    }

    /// Its values as counts: i32, none negative.
    ///
    /// # Errors
    /// When type or shape differ or a value is negative.
    pub fn counts(&self, letters: &str, shape: &[usize]) -> Result<Vec<u32>> {
        let values = self.values::<i32>(letters, shape)?.into_iter();
        let count = |n| u32::try_from(n).map_err(|_| self.refuse("counts, 0 or more", n));
        values.map(count).collect()
    }

    /// An error about this tensor.
    pub fn refuse(&self, expected: impl ToString, got: impl ToString) -> Error {
        refuse(
            &self.file.name,
            format!("tensor {}", self.name),
            expected,
            got,
        )
    }
}

fn refuse(file: &str, part: String, expected: impl ToString, got: impl ToString) -> Error {
    Error::input("read", format!("{file}, {part}"), expected, got)
}

/// Names in one line of an error.
fn listed<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> String {
    let names: Vec<_> = names
        .into_iter()
        .map(|name| name.as_ref().to_owned())
        .collect();
    if names.is_empty() {
        "none".into()
    } else {
        names.join(", ")
    }
}

fn widen<T: Copy + Into<f32>>(values: &[T]) -> Vec<f32> {
    values.iter().map(|&value| value.into()).collect()
}

/// The header and where the data after it starts; what is wrong, if it is not one.
fn read_header(source: &Source) -> Result<(usize, Metadata), String> {
    let told = |error: &dyn fmt::Display| error.to_string();
    let total = source.len().map_err(|error| told(&error))?;
    let prefix = source
        .bytes(0, PREFIX)
        .map_err(|_| "no header".to_owned())?;
    let length = prefix.first_chunk().map_or(0, |b| u64::from_le_bytes(*b));
    let length = usize::try_from(length).ok().filter(|&n| n <= MAX_HEADER);
    let length = length.ok_or("a header that is too long")?;
    if (PREFIX + length) as u64 > total {
        return Err("a header longer than the file".into());
    }
    let text = source.bytes(PREFIX, length).map_err(|error| told(&error))?;
    let header: Metadata = serde_json::from_slice(&text).map_err(|error| told(&error))?;
    serde_json::from_slice::<UniqueNames>(&text).map_err(|error| told(&error))?;
    let data = PREFIX + length;
    let end = data as u64 + header.data_len() as u64;
    match end == total {
        true => Ok((data, header)),
        false => Err(format!("{total} bytes where the header promises {end}")),
    }
}
