//! One block's dispatches: norm, projections, convolution, operator, output, residual; then the MLP.

use dla_core::model::{MixerConfig, ModelConfig};
use dla_core::{Result, Schedule};

use super::attention_unserved;
use super::sequences::LayerMemory;
use super::weights::{BlockWeights, MlpWeights};
use crate::nn::{
    self, Conv, ConvSpec, DeltaArrays, DeltaArraysSpec, DeltaOutput, DeltaOutputSpec, Input,
    Linear, Mamba2Arrays, Mamba2ArraysSpec, Mamba2Output, Mamba2OutputSpec, ReadColumns, Rows,
    Sources,
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
        let room = async |label, width: usize| nn::buffer(gpu, label, count * width).await;
        let (channels, _) = config.convolutions();
        let opened = match &config.mixer {
            MixerConfig::Mamba2(_) => None,
            MixerConfig::GatedDelta(mixer) => Some(room("opened", 2 * mixer.intermediate).await?),
            MixerConfig::Attention(_) => return Err(attention_unserved()),
        };
        Ok(Self {
            x: room("x", config.hidden).await?,
            normed: room("normed", config.hidden).await?,
            projected: room("projected", Columns::of(config)?.stride).await?,
            mixed: room("mixed", channels.iter().sum()).await?,
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
        let columns = Columns::of(self.config)?;
        let (channels, width) = self.config.convolutions();
        let conv = Conv {
            spec: ConvSpec {
                stride: columns.stride,
                first: columns.convolved,
                channels: channels.iter().sum(),
                width,
            },
            weight: &weights.conv,
        };
        let buffers = [&rooms.projected, &memory.conv, &rooms.mixed];
        let lengths = &rooms.arrays.lengths;
        let mut dispatches = conv.prepare(gpu, rows, lengths, buffers).await?;
        dispatches.extend(self.arrays(weights, &columns).await?);
        dispatches.extend_from_slice(self.operator.dispatches());
        dispatches.extend(self.output(weights, &columns).await?);
        Ok(dispatches)
    }

    /// What the operator takes.
    async fn arrays(&self, weights: &BlockWeights, columns: &Columns) -> Result<Vec<Dispatch>> {
        let (gpu, rows, rooms) = (self.gpu, self.rows, self.rooms);
        let (dims, stride) = (self.config.dims(), columns.stride);
        let sources = Sources {
            mixed: &rooms.mixed,
            projected: &rooms.projected,
            positions: self.positions,
        };
        let lambda = ReadColumns {
            column: columns.lambda,
            fenwick: self.config.operator().schedule == Schedule::Fenwick,
        };
        let (heads, read_weights) = (&weights.heads, weights.read.as_ref());
        match &self.config.mixer {
            MixerConfig::Mamba2(mixer) => {
                let spec = Mamba2ArraysSpec {
                    dims,
                    stride,
                    dt: columns.decay,
                    lambda,
                    dt_limit: mixer.dt_limit,
                };
                let arrays = Mamba2Arrays {
                    spec,
                    heads,
                    read_weights,
                };
                arrays.prepare(gpu, rows, &sources, &rooms.arrays).await
            }
            MixerConfig::GatedDelta(mixer) => {
                let spec = DeltaArraysSpec {
                    dims,
                    stride,
                    a: columns.decay,
                    b: columns.decay + mixer.value_heads,
                    lambda,
                    most: mixer.most_strength(),
                };
                let arrays = DeltaArrays {
                    spec,
                    heads,
                    read_weights,
                };
                arrays.prepare(gpu, rows, &sources, &rooms.arrays).await
            }
            MixerConfig::Attention(_) => Err(attention_unserved()),
        }
    }

    /// What is made of the operator's output.
    async fn output(&self, weights: &BlockWeights, columns: &Columns) -> Result<Vec<Dispatch>> {
        let (gpu, rows, rooms) = (self.gpu, self.rows, self.rooms);
        let (dims, stride) = (self.config.dims(), columns.stride);
        let (weight, epsilon) = (&weights.out_norm, self.config.norm_epsilon);
        match &self.config.mixer {
            MixerConfig::Mamba2(mixer) => {
                let spec = Mamba2OutputSpec {
                    dims,
                    stride,
                    z: columns.gate.unwrap_or(0),
                    norm_groups: mixer.groups,
                    epsilon,
                };
                let heads = &weights.heads;
                let output = Mamba2Output {
                    spec,
                    heads,
                    weight,
                };
                let sources = [&rooms.arrays.o, &rooms.mixed, &rooms.projected];
                output.prepare(gpu, rows, sources, &rooms.y).await
            }
            MixerConfig::GatedDelta(_) => {
                let spec = DeltaOutputSpec {
                    dims,
                    stride,
                    gate: columns.gate,
                    epsilon,
                };
                let output = DeltaOutput { spec, weight };
                let sources = [&rooms.arrays.o, &rooms.projected];
                output.prepare(gpu, rows, sources, &rooms.y).await
            }
            MixerConfig::Attention(_) => Err(attention_unserved()),
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

/// Where a mixer's parts lie in a row of its projections.
struct Columns {
    /// What the convolutions read.
    convolved: usize,
    /// The gate of the output, if there is one.
    gate: Option<usize>,
    /// Mamba-2's Δ; Gated DeltaNet's a, and b behind it.
    decay: usize,
    /// λ before its scale, if it is projected.
    lambda: Option<usize>,
    /// The row's width.
    stride: usize,
}

impl Columns {
    fn of(config: &ModelConfig) -> Result<Self> {
        let dims = config.dims();
        let (convolved, gate, decay, end) = match &config.mixer {
            MixerConfig::Mamba2(m) => {
                let decay = m.inner() + m.conv_channels();
                (m.inner(), Some(0), decay, decay + m.heads)
            }
            MixerConfig::GatedDelta(d) => {
                let gate = 2 * d.keys() + d.values();
                let decay = gate + if d.gate { d.values() } else { 0 };
                (0, d.gate.then_some(gate), decay, decay + 2 * d.value_heads)
            }
            MixerConfig::Attention(_) => return Err(attention_unserved()),
        };
        let read = config.dla.map_or(0, |_| dims.heads * dims.capacity);
        Ok(Self {
            convolved,
            gate,
            decay,
            lambda: config.dla.map(|_| end),
            stride: end + read,
        })
    }
}
