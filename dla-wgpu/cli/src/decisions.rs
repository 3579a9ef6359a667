//! The decisions of a model's layers in a file, written and followed by `dla logits`.

use std::path::Path;

use dla_core::model::ModelConfig;
use dla_core::{Decisions, Result};

use crate::tensors::{TensorFile, TensorWriter};

/// Sizes of a file's arrays, `[layers, batch, tokens, heads]`.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    layers: usize,
    batch: usize,
    tokens: usize,
    heads: usize,
}

impl Shape {
    /// Those of a model's run over `batch` sequences of `tokens` tokens.
    pub fn new(config: &ModelConfig, batch: usize, tokens: usize) -> Self {
        Self {
            layers: config.layers,
            batch,
            tokens,
            heads: config.dims().heads,
        }
    }

    /// Reads decisions: by sequence, then by layer, `[1, tokens, heads]`.
    ///
    /// # Errors
    /// When the file is not one of this shape.
    pub fn read(&self, path: &Path) -> Result<Vec<Vec<Decisions>>> {
        let file = TensorFile::open(path)?;
        let (letters, sizes) = ("[L, B, T, H]", self.sizes());
        let boundary = file.require("boundary")?.values::<u8>(letters, &sizes)?;
        let merge_at = file.require("merge_at")?.values::<i32>(letters, &sizes)?;
        let all = Decisions { boundary, merge_at };
        let of = |item: usize, layer: usize| {
            let first = (layer * self.batch + item) * self.tokens;
            all.part(self.heads, first..first + self.tokens)
        };
        let items =
            (0..self.batch).map(|item| (0..self.layers).map(|layer| of(item, layer)).collect());
        Ok(items.collect())
    }

    /// Writes decisions by sequence and layer.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, path: &Path, decisions: &[Vec<Decisions>]) -> Result<()> {
        let (mut boundary, mut merge_at) = (Vec::new(), Vec::new());
        for layer in 0..self.layers {
            for item in decisions {
                boundary.extend_from_slice(&item[layer].boundary);
                merge_at.extend_from_slice(&item[layer].merge_at);
            }
        }
        let mut file = TensorWriter::default();
        file.tensor("boundary", &self.sizes(), &boundary);
        file.tensor("merge_at", &self.sizes(), &merge_at);
        file.write(path)
    }

    fn sizes(&self) -> [usize; 4] {
        [self.layers, self.batch, self.tokens, self.heads]
    }
}
