//! Softmax attention: queries, keys and values are the convolution's output, the output is its own.

use std::sync::Arc;

use dla_core::Result;
use dla_wgpu::Gpu;
use dla_wgpu::nn::{self, backward};

use super::super::shared;
use super::super::work::{Work, dispatched};
use super::call::{Call, Kept};

/// What the attention of all blocks shares.
#[derive(Debug)]
pub(in crate::device) struct Shared {
    spec: nn::AttentionSpec,
    /// o·do, `[rows, heads]`.
    dots: wgpu::Buffer,
}

/// A block's attention.
#[derive(Debug)]
pub(super) struct Attention {
    all: Arc<Shared>,
    /// Queries, keys, values, `[rows, 3, heads, width]`.
    qkv: wgpu::Buffer,
    /// `[rows, heads, width]`.
    o: wgpu::Buffer,
    /// The logarithm of the sum of e^score, `[rows, heads]`.
    spread: wgpu::Buffer,
}

impl Shared {
    pub(super) async fn new(
        gpu: &Gpu,
        spec: nn::AttentionSpec,
        shared: &shared::Shared,
    ) -> Result<Self> {
        let count = shared.rows.count()?;
        let dots = nn::buffer(gpu, "dots", count * spec.heads).await?;
        Ok(Self { spec, dots })
    }
}

impl Attention {
    pub(super) async fn new(
        gpu: &Gpu,
        all: Arc<Shared>,
        shared: &shared::Shared,
        kept: Kept,
    ) -> Result<Self> {
        let (count, spec) = (shared.rows.count()?, all.spec);
        Ok(Self {
            o: nn::buffer(gpu, "o", count * spec.heads * spec.width).await?,
            spread: nn::buffer(gpu, "spread", count * spec.heads).await?,
            qkv: kept.mixed,
            all,
        })
    }

    pub(super) fn output(&self) -> &wgpu::Buffer {
        &self.o
    }

    pub(super) async fn forward(&self, call: &Call<'_>) -> Result<Vec<Work>> {
        let layer = self.layer(call);
        let prepared = layer.prepare(call.gpu, call.shared.rows).await;
        prepared.map(dispatched)
    }

    pub(super) async fn backward(&self, call: &Call<'_>) -> Result<Vec<Work>> {
        let shared = call.shared;
        let to = [&self.all.dots, &shared.d_mixed];
        let layer = self.layer(call);
        let prepared = layer.prepare_backward(call.gpu, shared.rows, &shared.d_y, to);
        prepared.await.map(dispatched)
    }

    fn layer<'a>(&'a self, call: &Call<'a>) -> backward::Attention<'a> {
        backward::Attention {
            spec: self.all.spec,
            lengths: &call.shared.lengths,
            qkv: &self.qkv,
            o: &self.o,
            spread: &self.spread,
        }
    }
}
