//! Safetensors files: read with suspicion, written whole.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::path::Path;

use dla_core::{Error, Result};
use half::f16;
use safetensors::tensor::{Metadata, TensorView};
use safetensors::{Dtype, SafeTensors};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::atomic;

/// Bytes that hold the header's length at the start of a file.
const PREFIX: usize = 8;

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
element!(i32, I32);
element!(u8, U8);

/// A safetensors file in memory, its header checked.
#[derive(Debug)]
pub struct TensorFile {
    name: String,
    header: Metadata,
    bytes: Vec<u8>,
    data: usize,
}

impl TensorFile {
    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read or is not a well-formed safetensors file.
    pub fn read(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let bytes = std::fs::read(path).map_err(|error| {
            Error::input("read", name.clone(), "a readable file", error).advise("check the path")
        })?;
        Self::parse(name, bytes)
    }

    /// Takes a file's bytes; `name` is what errors call it.
    ///
    /// # Errors
    /// When the bytes are not a well-formed safetensors file.
    pub fn parse(name: String, bytes: Vec<u8>) -> Result<Self> {
        let refuse = |got: &dyn fmt::Display| {
            Error::input("read", name.clone(), "a well-formed safetensors file", got)
                .advise("write it again with a safetensors library")
        };
        let (length, header) =
            SafeTensors::read_metadata(&bytes).map_err(|error| refuse(&error))?;
        let data = PREFIX + length;
        serde_json::from_slice::<UniqueNames>(&bytes[PREFIX..data])
            .map_err(|error| refuse(&error))?;
        Ok(Self {
            name,
            header,
            bytes,
            data,
        })
    }

    /// The words of `__metadata__`.
    pub fn words(&self) -> HashMap<&str, &str> {
        let words = self.header.metadata().iter().flatten();
        words
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect()
    }

    /// The tensor `name`, if the file has it.
    pub fn get(&self, name: &'static str) -> Option<Tensor<'_>> {
        let info = self.header.info(name)?;
        let (start, end) = info.data_offsets;
        Some(Tensor {
            file: &self.name,
            name,
            dtype: info.dtype,
            shape: &info.shape,
            bytes: &self.bytes[self.data + start..self.data + end],
        })
    }

    /// The tensor `name`, which the caller cannot do without.
    ///
    /// # Errors
    /// When the file does not have it.
    pub fn require(&self, name: &'static str) -> Result<Tensor<'_>> {
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

/// One tensor of a [`TensorFile`], borrowed.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    file: &'a str,
    name: &'static str,
    dtype: Dtype,
    shape: &'a [usize],
    bytes: &'a [u8],
}

impl<'a> Tensor<'a> {
    /// Its type.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Its shape.
    pub fn shape(&self) -> &'a [usize] {
        self.shape
    }

    /// Its sizes, which must be as many as `letters`.
    ///
    /// # Errors
    /// When the rank differs.
    pub fn sizes<const RANK: usize>(&self, letters: &str) -> Result<[usize; RANK]> {
        self.shape
            .try_into()
            .map_err(|_| self.refuse(format!("shape {letters}"), format!("{:?}", self.shape)))
    }

    /// Its values, which must have the shape `shape`; `letters` names the sizes in errors.
    ///
    /// # Errors
    /// When type or shape differ.
    pub fn values<E: Element>(&self, letters: &str, shape: &[usize]) -> Result<Vec<E>> {
        if self.dtype != E::DTYPE {
            return Err(self.refuse(E::DTYPE, self.dtype).advise("convert it"));
        }
        if self.shape != shape {
            let expected = format!("shape {letters} = {shape:?}");
            return Err(self.refuse(expected, format!("{:?}", self.shape)));
        }
        Ok(E::decode(self.bytes))
    }

    /// As [`values`](Self::values) for f32, taking f16 too and widening it.
    ///
    /// # Errors
    /// When type or shape differ.
    pub fn widened(&self, letters: &str, shape: &[usize]) -> Result<Vec<f32>> {
        if self.dtype != Dtype::F16 {
            return self.values(letters, shape);
        }
        let values = self.values::<f16>(letters, shape)?;
        Ok(values.into_iter().map(f32::from).collect())
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
        refuse(self.file, format!("tensor {}", self.name), expected, got)
    }
}

fn refuse(file: &str, part: String, expected: impl ToString, got: impl ToString) -> Error {
    Error::input("read", format!("{file}, {part}"), expected, got)
        .advise("the command's --help describes the file")
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

/// A safetensors file to be written: named arrays and words.
#[derive(Debug, Default)]
pub struct TensorWriter {
    tensors: Vec<(&'static str, Dtype, Vec<usize>, Vec<u8>)>,
    words: HashMap<String, String>,
}

impl TensorWriter {
    /// Adds a tensor.
    pub fn tensor<E: Element>(&mut self, name: &'static str, shape: &[usize], values: &[E]) {
        self.tensors
            .push((name, E::DTYPE, shape.to_vec(), E::encode(values)));
    }

    /// Adds a word of `__metadata__`.
    pub fn word(&mut self, key: &str, value: impl ToString) {
        self.words.insert(key.into(), value.to_string());
    }

    /// Writes the file; a failure leaves what was there before.
    ///
    /// # Errors
    /// When a shape does not fit its values or the file cannot be written.
    pub fn write(self, path: &Path) -> Result<()> {
        let refuse =
            |error| Error::file("write", path.display().to_string(), "to be written", error);
        let views = self.tensors.iter().map(|(name, dtype, shape, bytes)| {
            TensorView::new(*dtype, shape.clone(), bytes).map(|view| (*name, view))
        });
        let views = views.collect::<Result<Vec<_>, _>>().map_err(refuse)?;
        let bytes = safetensors::serialize(views, Some(self.words)).map_err(refuse)?;
        atomic::write(path, &bytes)
    }
}

/// JSON whose objects repeat no name: where one is repeated, readers disagree on which counts.
struct UniqueNames;

impl<'de> Deserialize<'de> for UniqueNames {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueNames)
    }
}

impl<'de> Visitor<'de> for UniqueNames {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON without repeated names")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self, A::Error> {
        let mut names = BTreeSet::new();
        while let Some((name, Self)) = map.next_entry::<String, Self>()? {
            if names.contains(&name) {
                return Err(serde::de::Error::custom(format_args!("{name} twice")));
            }
            names.insert(name);
        }
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self, A::Error> {
        while let Some(Self) = seq.next_element()? {}
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }
}
