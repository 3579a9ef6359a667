//! Token ids to vectors.

use dla_core::Result;
use dla_shaders::{self as shaders, Pass};

use super::constants::Constants;
use super::layer::{Layer, Rows, holds, holds_items, words};
use super::matrix::{Matrix, WeightType};
use crate::{Dispatch, Gpu};

const OP: &str = "embed";

/// A table of one vector for each token id, the twin of `dla_core::nn::Embedding`.
#[derive(Clone, Copy, Debug)]
pub struct Embedding<'a> {
    /// `[vocabulary, width]`.
    pub table: &'a Matrix,
}

/// The constants of its pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmbeddingSpec {
    /// Token ids.
    pub vocabulary: usize,
    /// Values of a vector.
    pub width: usize,
    /// How the table lies.
    pub weight_type: WeightType,
}

impl EmbeddingSpec {
    /// The pass.
    pub fn pass(&self) -> &'static Pass {
        match self.weight_type {
            WeightType::F32 => &shaders::EMBED_F32,
            WeightType::F16 => &shaders::EMBED_F16,
            WeightType::I8 => &shaders::EMBED_I8,
        }
    }

    /// The constants as WGSL.
    pub fn header(&self) -> String {
        let sizes = [
            ("VOCABULARY", self.vocabulary),
            ("WIDTH", self.width),
            ("WEIGHT_COLUMNS", self.weight_type.padded(self.width)),
        ];
        Constants::default().sizes(&sizes).header()
    }
}

impl Embedding<'_> {
    /// Binds `ids` `[rows]` u32 and `x` `[rows, width]`: x becomes the vectors of the ids, zeros behind a batch item's
    /// length (`lengths`, a uniform buffer as in [`Arrays`](crate::op::Arrays)) and for ids beyond the table.
    ///
    /// # Errors
    /// [`Error::is_input`](dla_core::Error::is_input) for buffers that are too small,
    /// [`Error::is_device`](dla_core::Error::is_device) for what the device refuses.
    pub async fn prepare(
        &self,
        gpu: &Gpu,
        rows: Rows,
        lengths: &wgpu::Buffer,
        ids: &wgpu::Buffer,
        x: &wgpu::Buffer,
    ) -> Result<Vec<Dispatch>> {
        let spec = EmbeddingSpec {
            vocabulary: self.table.rows(),
            width: self.table.columns(),
            weight_type: self.table.weight_type(),
        };
        let count = rows.count()?;
        holds_items(OP, "lengths", lengths)?;
        holds(OP, "ids", ids, &[count])?;
        holds(OP, "x", x, &[count, spec.width])?;
        let invocations = words(OP, "x", &[count, spec.width.div_ceil(4)])?;
        let (pass, header) = (spec.pass(), spec.header());
        let mut dispatches = Vec::new();
        if count == 0 {
            return Ok(dispatches);
        }
        for block in self.table.blocks() {
            let layer = Layer {
                first: block.first as u32,
                count: block.count as u32,
                ..Layer::new(rows)?
            };
            let mut buffers = vec![("lengths", lengths), ("ids", ids), ("x", x)];
            buffers.extend(block.buffers());
            let groups = invocations.div_ceil(256);
            dispatches.push(
                layer
                    .dispatch(gpu, (pass, &header), &buffers, groups)
                    .await?,
            );
        }
        Ok(dispatches)
    }
}
