//! One block's dispatches: norm, projections, convolution, operator, output, residual; then the MLP.

use dla_core::Result;
use dla_core::model::ModelConfig;

use super::attention_unserved;
use super::sequences::LayerMemory;
use super::specs::{BlockSpecs, MixerSpecs};
use super::weights::{BlockWeights, MlpWeights};
use crate::nn::{
    self, Conv, DeltaArrays, DeltaOutput, Input, Linear, Mamba2Arrays, Mamba2Output, Rows, Sources,
};
use crate::op::{Arrays, Bound};
use crate::{Dispatch, Gpu};

/// The buffers between the passes of a block, which all blocks share.
#[derive(Debug)]
pub(super) struct Rooms {
    /// The residual stream, `[rows, hidden]`.
    pub(super) x: wgpu::Buffer,
    /// The operator's arrays.
    pub(super) arrays: Arrays,
    normed: wgpu::Buffer,
    projected: wgpu::Buffer,
    mixed: wgpu::Buffer,
    y: wgpu::Buffer,
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
    pub(super) operator: &'a Bound,
}

impl Rooms {
    /// Room for `rows` around the operator's arrays.
    pub(super) async fn new(
        gpu: &Gpu,
        config: &ModelConfig,
        rows: Rows,
        arrays: Arrays,
    ) -> Result<Self> {
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
            arrays,
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
        dispatches.extend(self.mixer(weights, memory).await?);
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
    async fn mixer(&self, weights: &BlockWeights, memory: &LayerMemory) -> Result<Vec<Dispatch>> {
        let (gpu, rows, rooms) = (self.gpu, self.rows, self.rooms);
        let specs = BlockSpecs::of(self.config);
        let conv = Conv {
            spec: specs.conv,
            weight: &weights.conv,
        };
        let buffers = [&rooms.projected, &memory.conv, &rooms.mixed];
        let lengths = &rooms.arrays.lengths;
        let mut dispatches = conv.prepare(gpu, rows, lengths, buffers).await?;
        dispatches.extend(self.arrays(weights, &specs).await?);
        dispatches.extend_from_slice(self.operator.dispatches());
        dispatches.extend(self.output(weights, &specs).await?);
        Ok(dispatches)
    }

    /// What the operator takes.
    async fn arrays(&self, weights: &BlockWeights, specs: &BlockSpecs) -> Result<Vec<Dispatch>> {
        let (gpu, rows, rooms) = (self.gpu, self.rows, self.rooms);
        let sources = Sources {
            mixed: &rooms.mixed,
            projected: &rooms.projected,
            positions: self.positions,
        };
        let (heads, read_weights) = (&weights.heads, weights.read.as_ref());
        match specs.mixer {
            MixerSpecs::Mamba2(spec, _) => {
                let arrays = Mamba2Arrays {
                    spec,
                    heads,
                    read_weights,
                };
                arrays.prepare(gpu, rows, &sources, &rooms.arrays).await
            }
            MixerSpecs::GatedDelta(spec, _) => {
                let arrays = DeltaArrays {
                    spec,
                    heads,
                    read_weights,
                };
                arrays.prepare(gpu, rows, &sources, &rooms.arrays).await
            }
            MixerSpecs::Attention(_) => Err(attention_unserved()),
        }
    }

    /// What is made of the operator's output.
    async fn output(&self, weights: &BlockWeights, specs: &BlockSpecs) -> Result<Vec<Dispatch>> {
        let (gpu, rows, rooms) = (self.gpu, self.rows, self.rooms);
        let (heads, weight) = (&weights.heads, &weights.out_norm);
        match specs.mixer {
            MixerSpecs::Mamba2(_, spec) => {
                let output = Mamba2Output {
                    spec,
                    heads,
                    weight,
                };
                let sources = [&rooms.arrays.o, &rooms.mixed, &rooms.projected];
                output.prepare(gpu, rows, sources, &rooms.y).await
            }
            MixerSpecs::GatedDelta(_, spec) => {
                let output = DeltaOutput { spec, weight };
                let sources = [&rooms.arrays.o, &rooms.projected];
                output.prepare(gpu, rows, sources, &rooms.y).await
            }
            MixerSpecs::Attention(_) => Err(attention_unserved()),
        }
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
