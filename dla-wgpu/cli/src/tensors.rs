//! Safetensors files: read with suspicion, written whole.

use std::collections::HashMap;
use std::path::Path;

use dla_core::{Error, Result};
use safetensors::Dtype;
use safetensors::tensor::TensorView;

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
