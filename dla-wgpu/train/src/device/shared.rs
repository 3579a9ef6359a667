//! What all blocks of a training step share between their passes.

use dla_core::Result;
use dla_core::model::ModelConfig;
use dla_wgpu::model::BlockSpecs;
use dla_wgpu::nn::{self, Rows, backward};
use dla_wgpu::plan::MAX_BATCH;
use dla_wgpu::{Float, Gpu};

/// The buffers between passes that all blocks share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) rows: Rows,
    /// Element type of the operator's arrays.
    pub(super) float: Float,
    pub(super) specs: BlockSpecs,
    /// Tokens of each sequence.
    pub(super) lengths: wgpu::Buffer,
    /// Zeros that convolutions begin with.
    pub(super) conv_state: wgpu::Buffer,
    pub(super) normed: wgpu::Buffer,
    pub(super) product: wgpu::Buffer,
    pub(super) d_x: wgpu::Buffer,
    pub(super) d_normed: wgpu::Buffer,
    pub(super) d_y: wgpu::Buffer,
    pub(super) d_projected: wgpu::Buffer,
    pub(super) d_mixed: wgpu::Buffer,
    pub(super) d_opened: wgpu::Buffer,
    pub(super) d_product: wgpu::Buffer,
    pub(super) terms: wgpu::Buffer,
    pub(super) scratch: wgpu::Buffer,
}

impl Shared {
    /// Room for batches of `rows`, the operator's arrays in `float`.
    pub(super) async fn new(
        gpu: &Gpu,
        config: &ModelConfig,
        float: Float,
        rows: Rows,
    ) -> Result<Self> {
        let (count, hidden) = (rows.count()?, config.hidden);
        let (dims, specs) = (config.dims(), BlockSpecs::of(config).with(float));
        let lengths = nn::uniform(gpu, "lengths", MAX_BATCH).await?;
        let tokens = vec![rows.tokens as u32; rows.batch];
        gpu.queue()
            .write_buffer(&lengths, 0, bytemuck::cast_slice(&tokens));
        let room = async |label, width: usize| nn::buffer(gpu, label, count * width).await;
        let values = dims.heads * dims.value_dim;
        let inner = specs.inner.unwrap_or(1);
        let read = 2 * dims.heads * dims.capacity;
        Ok(Self {
            rows,
            float,
            specs,
            lengths,
            conv_state: nn::buffer(gpu, "conv_state", specs.conv.state_len(rows.batch)).await?,
            normed: room("normed", hidden).await?,
            product: room("product", inner).await?,
            d_x: room("d_x", hidden).await?,
            d_normed: room("d_normed", hidden).await?,
            d_y: room("d_y", values).await?,
            d_projected: room("d_projected", specs.stride).await?,
            d_mixed: room("d_mixed", specs.conv.channels).await?,
            d_opened: room("d_opened", 2 * inner).await?,
            d_product: room("d_product", inner).await?,
            terms: room("terms", hidden.max(values).max(read)).await?,
            scratch: backward::scratch(gpu).await?,
        })
    }
}
