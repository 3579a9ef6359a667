//! The buffers between a block's passes, and what its dispatches are prepared from.

use dla_core::Result;
use dla_core::model::ModelConfig;

use super::specs::BlockSpecs;
use crate::Gpu;
use crate::nn::{self, Rows};

/// The buffers between the passes of a block, which all blocks share.
#[derive(Debug)]
pub(super) struct Rooms {
    /// The residual stream, `[rows, hidden]`.
    pub(super) x: wgpu::Buffer,
    /// The residual stream after a norm.
    pub(super) normed: wgpu::Buffer,
    /// The projections, `[rows, stride]`.
    pub(super) projected: wgpu::Buffer,
    /// The convolution's output, `[rows, channels]`.
    pub(super) mixed: wgpu::Buffer,
    /// The mixer's output, `[rows, values]`.
    pub(super) y: wgpu::Buffer,
    /// An MLP's gate and what it opens, `[rows, 2 · inner]`.
    pub(super) opened: Option<wgpu::Buffer>,
}

/// What a block's dispatches are prepared from.
pub(super) struct Call<'a> {
    pub(super) gpu: &'a Gpu,
    pub(super) config: &'a ModelConfig,
    pub(super) rows: Rows,
    pub(super) rooms: &'a Rooms,
    pub(super) positions: &'a wgpu::Buffer,
    /// The layer.
    pub(super) index: usize,
}

impl Rooms {
    /// Room for `rows`.
    pub(super) async fn new(gpu: &Gpu, config: &ModelConfig, rows: Rows) -> Result<Self> {
        let (count, dims) = (rows.count()?, config.dims());
        let specs = BlockSpecs::of(config);
        let room = async |label, width: usize| nn::buffer(gpu, label, count * width).await;
        let opened = match specs.inner {
            Some(inner) => Some(room("opened", 2 * inner).await?),
            None => None,
        };
        Ok(Self {
            x: room("x", config.hidden).await?,
            normed: room("normed", config.hidden).await?,
            projected: room("projected", specs.stride).await?,
            mixed: room("mixed", specs.conv.channels).await?,
            y: room("y", dims.heads * dims.value_dim).await?,
            opened,
        })
    }
}
