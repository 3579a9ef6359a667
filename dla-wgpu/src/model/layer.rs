//! One block's dispatches: norm, projections, convolution, mixer, output, residual; then the MLP.

use dla_core::Result;
use dla_core::model::ModelConfig;

use super::mixer::Mixers;
use super::sequences::LayerMemory;
use super::specs::BlockSpecs;
use super::weights::{BlockWeights, MlpWeights};
use crate::nn::{self, Conv, Input, Linear, Rows};
use crate::{Dispatch, Gpu};

/// The buffers between the passes of a block, which all blocks share.
#[derive(Debug)]
pub(super) struct Rooms {
    /// The residual stream, `[rows, hidden]`.
    pub(super) x: wgpu::Buffer,
    normed: wgpu::Buffer,
    /// The projections, `[rows, stride]`.
    pub(super) projected: wgpu::Buffer,
    /// The convolution's output, `[rows, channels]`.
    pub(super) mixed: wgpu::Buffer,
    /// The mixer's output, `[rows, values]`.
    pub(super) y: wgpu::Buffer,
    /// An MLP's gate and what it opens, `[rows, 2 · inner]`.
    opened: Option<wgpu::Buffer>,
}

/// What a block's dispatches are prepared from.
pub(super) struct Call<'a> {
    pub(super) gpu: &'a Gpu,
    pub(super) config: &'a ModelConfig,
    pub(super) rows: Rows,
    pub(super) rooms: &'a Rooms,
    pub(super) positions: &'a wgpu::Buffer,
    pub(super) mixers: &'a Mixers,
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

impl Call<'_> {
    /// The dispatches of a block, in order.
    pub(super) async fn prepare(
        &self,
        weights: &BlockWeights,
        memory: &LayerMemory,
    ) -> Result<Vec<Dispatch>> {
        let (gpu, rows, rooms) = (self.gpu, self.rows, self.rooms);
        let in_proj = Linear {
            weight: &weights.in_proj,
            bias: weights.in_bias.as_ref(),
            input: self.normed(&weights.norm),
            residual: false,
        };
        let mut dispatches = in_proj
            .prepare(gpu, rows, &rooms.x, &rooms.projected)
            .await?;
        dispatches.extend(self.mixed(weights, memory).await?);
        let out_proj = Linear {
            weight: &weights.out_proj,
            bias: weights.out_bias.as_ref(),
            input: Input::Plain,
            residual: true,
        };
        dispatches.extend(out_proj.prepare(gpu, rows, &rooms.y, &rooms.x).await?);
        if let (Some(mlp), Some(opened)) = (&weights.mlp, &rooms.opened) {
            dispatches.extend(self.mlp(mlp, opened).await?);
        }
        Ok(dispatches)
    }

    /// From the projections to what the last projection reads.
    async fn mixed(&self, weights: &BlockWeights, memory: &LayerMemory) -> Result<Vec<Dispatch>> {
        let (gpu, rows, rooms) = (self.gpu, self.rows, self.rooms);
        let conv = Conv {
            spec: BlockSpecs::of(self.config).conv,
            weight: &weights.conv,
        };
        let buffers = [&rooms.projected, &memory.conv, &rooms.mixed];
        let lengths = self.mixers.lengths();
        let mut dispatches = conv.prepare(gpu, rows, lengths, buffers).await?;
        dispatches.extend(self.mixer(&weights.mixer, &memory.mixer).await?);
        Ok(dispatches)
    }

    fn normed<'a>(&'a self, weight: &'a wgpu::Buffer) -> Input<'a> {
        Input::Normed {
            weight,
            epsilon: self.config.norm_epsilon,
            scratch: &self.rooms.normed,
        }
    }

    async fn mlp(&self, weights: &MlpWeights, opened: &wgpu::Buffer) -> Result<Vec<Dispatch>> {
        let (gpu, rows, x) = (self.gpu, self.rows, &self.rooms.x);
        let up = Linear {
            weight: &weights.up,
            bias: None,
            input: self.normed(&weights.norm),
            residual: false,
        };
        let down = Linear {
            weight: &weights.down,
            bias: None,
            input: Input::Gated,
            residual: true,
        };
        let mut dispatches = up.prepare(gpu, rows, x, opened).await?;
        dispatches.extend(down.prepare(gpu, rows, opened, x).await?);
        Ok(dispatches)
    }
}
