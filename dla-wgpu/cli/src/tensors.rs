//! Safetensors files: read with suspicion, written whole or as their values come.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;

use dla_core::{Error, Result};
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::json;

use crate::atomic;

pub use dla_core::tensors::{Element, Tensor, TensorFile};

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

/// The values of a tensor on their way into its file.
pub struct Values<'a> {
    out: &'a mut dyn Write,
    path: &'a Path,
    /// Values that are still to come.
    left: usize,
}

impl Values<'_> {
    /// Writes the next values.
    ///
    /// # Errors
    /// When they cannot be written, or are more than the tensor has.
    pub fn push(&mut self, values: &[f32]) -> Result<()> {
        let left = self.left.checked_sub(values.len());
        self.left = left.ok_or_else(|| unwritten(self.path, "more values than its shape has"))?;
        let written = self.out.write_all(&f32::encode(values));
        written.map_err(|error| unwritten(self.path, error))
    }
}

/// Writes a file of one tensor `name` of f32, the values as `fill` gives them; a failure leaves what was there before.
///
/// # Errors
/// Those of `fill`, values that are not those of `shape`, and when the file cannot be written.
pub fn stream(
    path: &Path,
    name: &str,
    shape: &[usize],
    fill: impl FnOnce(&mut Values<'_>) -> Result<()>,
) -> Result<()> {
    let product = |factors: &[usize]| {
        let mut factors = factors.iter();
        factors.try_fold(1usize, |product, &factor| product.checked_mul(factor))
    };
    let (Some(left), Some(bytes)) = (product(shape), product(&[shape, &[4]].concat())) else {
        let got = format!("shape {shape:?}");
        let expected = "a tensor whose bytes can be counted";
        return Err(Error::unsupported("write", name.to_owned(), expected, got));
    };
    let entry = json!({ "dtype": Dtype::F32, "shape": shape, "data_offsets": [0, bytes] });
    let mut header = json!({ name: entry }).to_string();
    header.push_str(&" ".repeat(header.len().next_multiple_of(8) - header.len()));
    atomic::stream(path, |out| {
        let length = (header.len() as u64).to_le_bytes();
        let begun = out.write_all(&length);
        let begun = begun.and_then(|()| out.write_all(header.as_bytes()));
        begun.map_err(|error| unwritten(path, error))?;
        let mut values = Values { out, path, left };
        fill(&mut values)?;
        match values.left {
            0 => Ok(()),
            left => Err(unwritten(path, format!("{left} values are missing"))),
        }
    })
}

fn unwritten(path: &Path, got: impl ToString) -> Error {
    Error::file("write", path.display().to_string(), "to be written", got)
}
