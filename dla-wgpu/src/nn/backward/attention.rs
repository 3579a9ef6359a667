//! Causal softmax attention, the baseline, forwards and backwards.

use dla_core::Result;
use dla_shaders::{
    ATTENTION, ATTENTION_DOTS, ATTENTION_QUERY_GRADIENT, ATTENTION_SOURCE_GRADIENT, Pass,
};

use crate::nn::AttentionSpec;
use crate::nn::attention::over_heads;
use crate::nn::layer::{Layer, Rows, holds, holds_items, words};
use crate::{Dispatch, Gpu};

const OP: &str = "attention";

/// Causal softmax attention over the tokens of a call, head by head.
#[derive(Clone, Copy, Debug)]
pub struct Attention<'a> {
    /// Sizes.
    pub spec: AttentionSpec,
    /// Tokens that each batch item really has, as in [`Arrays`](crate::op::Arrays).
    pub lengths: &'a wgpu::Buffer,
    /// Queries, keys and values, `[rows, 3, H, D]`.
    pub qkv: &'a wgpu::Buffer,
    /// The output, `[rows, H, D]`; 0 behind an item's length.
    pub o: &'a wgpu::Buffer,
    /// The logarithm of the sum of e^score, `[rows, H]`.
    pub spread: &'a wgpu::Buffer,
}

impl Attention<'_> {
    /// Writes the output.
    ///
    /// # Errors
    /// [`Error::is_input`](dla_core::Error::is_input) for sizes that do not fit,
    /// [`Error::is_unsupported`](dla_core::Error::is_unsupported) for wider heads,
    /// [`Error::is_device`](dla_core::Error::is_device) for what the device refuses.
    pub async fn prepare(&self, gpu: &Gpu, rows: Rows) -> Result<Vec<Dispatch>> {
        self.check(rows)?;
        self.tiles(gpu, rows, &ATTENTION, &[("o", self.o)]).await
    }

    /// Binds `d_o` `[rows, H, D]`, which counts up to an item's length; writes `d_qkv`, shaped as `qkv`, and `dots`
    /// `[rows, H]`. Output and spread are those of the forward pass.
    ///
    /// # Errors
    /// As [`Attention::prepare`].
    pub async fn prepare_backward(
        &self,
        gpu: &Gpu,
        rows: Rows,
        d_o: &wgpu::Buffer,
        [dots, d_qkv]: [&wgpu::Buffer; 2],
    ) -> Result<Vec<Dispatch>> {
        self.check(rows)?;
        let (count, AttentionSpec { heads, width }) = (rows.count()?, self.spec);
        holds(OP, "d_o", d_o, &[count, heads, width])?;
        holds(OP, "dots", dots, &[count, heads])?;
        holds(OP, "d_qkv", d_qkv, &[count, 3, heads, width])?;
        if count == 0 {
            return Ok(Vec::new());
        }
        let groups = words(OP, "rows", &[count, heads])?.div_ceil(256);
        let buffers = [("o", self.o), ("d_o", d_o), ("dots", dots)];
        let pass = (&ATTENTION_DOTS, &*self.spec.header());
        let layer = Layer::new(rows)?;
        let mut dispatches = vec![layer.dispatch(gpu, pass, &buffers, groups).await?];
        let buffers = [("d_o", d_o), ("dots", dots), ("d_qkv", d_qkv)];
        for pass in [&ATTENTION_QUERY_GRADIENT, &ATTENTION_SOURCE_GRADIENT] {
            dispatches.extend(self.tiles(gpu, rows, pass, &buffers).await?);
        }
        Ok(dispatches)
    }

    fn check(&self, rows: Rows) -> Result<()> {
        let (count, AttentionSpec { heads, width }) = (rows.count()?, self.spec);
        self.spec.check()?;
        holds_items(OP, "lengths", self.lengths)?;
        holds(OP, "qkv", self.qkv, &[count, 3, heads, width])?;
        holds(OP, "o", self.o, &[count, heads, width])?;
        holds(OP, "spread", self.spread, &[count, heads])
    }

    /// The dispatches of a pass over all tiles of all heads.
    async fn tiles(
        &self,
        gpu: &Gpu,
        rows: Rows,
        pass: &'static Pass,
        others: &[(&'static str, &wgpu::Buffer)],
    ) -> Result<Vec<Dispatch>> {
        let mut buffers = vec![
            ("lengths", self.lengths),
            ("qkv", self.qkv),
            ("spread", self.spread),
        ];
        buffers.extend(others);
        if rows.count()? == 0 {
            return Ok(Vec::new());
        }
        let flop = 8 * (rows.tokens as u64).pow(2) * self.spec.width as u64;
        let at = (rows, Layer::new(rows)?);
        over_heads(gpu, self.spec, at, pass, &buffers, flop).await
    }
}
