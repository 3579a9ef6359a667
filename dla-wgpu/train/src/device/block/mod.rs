//! One block forwards, keeping what the way back needs.

mod backward;

use dla_core::model::ModelConfig;
use dla_core::{Result, Schedule};
use dla_wgpu::Gpu;
use dla_wgpu::model::MixerSpecs;
use dla_wgpu::nn::backward::DecayRates;
use dla_wgpu::nn::{
    self, Conv, DeltaArrays, DeltaOutput, Input, Linear, Mamba2Arrays, Mamba2Output, Sources,
};
use dla_wgpu::op::Arrays;

use super::layout::{BlockPlaces, MlpPlaces};
use super::parameters::{Parameters, Which};
use super::plan::{Shared, Work, dispatched};

/// A block with what it keeps of a forward pass.
#[derive(Debug)]
pub(super) struct Block {
    places: BlockPlaces,
    /// The residual stream before the block, `[rows, hidden]`.
    x: wgpu::Buffer,
    projected: wgpu::Buffer,
    mixed: wgpu::Buffer,
    /// The operator's arrays: outputs and trace are this block's own.
    arrays: Arrays,
    /// Heads as the mixer takes them.
    heads: wgpu::Buffer,
    /// The residual stream after the mixer.
    after: wgpu::Buffer,
    mlp: Option<KeptMlp>,
    /// τ learns here.
    learns_tau: bool,
    conv_bias: bool,
    /// Rows of the mixer's own projections, without λ's.
    own_rows: usize,
}

#[derive(Debug)]
struct KeptMlp {
    places: MlpPlaces,
    /// Gate and what it opens.
    opened: wgpu::Buffer,
    /// The residual stream after the MLP.
    after: wgpu::Buffer,
}

impl Block {
    /// Room for what the block at `places` keeps; it reads the residual stream at `x`.
    pub(super) async fn new(
        gpu: &Gpu,
        config: &ModelConfig,
        shared: &Shared,
        places: &BlockPlaces,
        x: wgpu::Buffer,
    ) -> Result<Self> {
        let count = shared.rows.count()?;
        let room = async |label, width: usize| nn::buffer(gpu, label, count * width).await;
        let bytes = &shared.operator.plan().arrays;
        let trace = nn::buffer(gpu, "trace", (bytes.trace / 4) as usize).await?;
        if let Some(events) = &shared.events {
            gpu.queue()
                .write_buffer(&trace, 0, bytemuck::cast_slice(events));
        }
        let arrays = Arrays {
            o: nn::buffer(gpu, "o", (bytes.value / 4) as usize).await?,
            trace,
            tau: nn::uniform(gpu, "tau", shared.dims.heads.next_multiple_of(4)).await?,
            ..shared.arrays.clone()
        };
        let largest = vec![f32::MAX; shared.dims.heads.next_multiple_of(4)];
        gpu.queue()
            .write_buffer(&arrays.tau, 0, bytemuck::cast_slice(&largest));
        let mlp = match (places.mlp, shared.specs.inner) {
            (Some(places), Some(inner)) => Some(KeptMlp {
                places,
                opened: room("opened", 2 * inner).await?,
                after: room("x", config.hidden).await?,
            }),
            _ => None,
        };
        let conv_bias = match &config.mixer {
            dla_core::model::MixerConfig::Mamba2(mixer) => mixer.conv_bias,
            _ => false,
        };
        Ok(Self {
            x,
            projected: room("projected", shared.specs.stride).await?,
            mixed: room("mixed", shared.specs.conv.channels).await?,
            arrays,
            heads: nn::buffer(gpu, "heads", 3 * shared.dims.heads).await?,
            after: room("x", config.hidden).await?,
            mlp,
            learns_tau: config.operator().schedule == Schedule::Dynamic && places.tau.is_some(),
            conv_bias,
            own_rows: shared.specs.lambda.column.unwrap_or(shared.specs.stride),
            places: places.clone(),
        })
    }

    /// The residual stream after the block.
    pub(super) fn output(&self) -> &wgpu::Buffer {
        self.mlp.as_ref().map_or(&self.after, |mlp| &mlp.after)
    }

    /// The work of the forward pass.
    pub(super) async fn forward(
        &self,
        gpu: &Gpu,
        parameters: &Parameters,
        shared: &Shared,
    ) -> Result<Vec<Work>> {
        let (rows, places) = (shared.rows, &self.places);
        let value = |place| parameters.vector(place, Which::Value);
        let arrays = match shared.specs.mixer {
            MixerSpecs::Mamba2(..) => 3,
            MixerSpecs::GatedDelta(..) => 2,
        };
        let rates = DecayRates {
            heads: shared.dims.heads,
            arrays,
        };
        let rates = rates.prepare(gpu, value(places.heads), &self.heads).await?;
        let mut work = dispatched(rates);
        if let (true, Some(tau)) = (self.learns_tau, places.tau) {
            let bytes = shared.dims.heads as u64 * 4;
            work.push(Work::Copy(
                value(tau).clone(),
                self.arrays.tau.clone(),
                bytes,
            ));
        }
        let in_proj = Linear {
            weight: parameters.matrix(places.in_proj, Which::Value),
            bias: places.in_bias.map(value),
            input: Input::Normed {
                weight: value(places.norm),
                epsilon: shared.specs.norm.epsilon,
                scratch: &shared.normed,
            },
            residual: false,
        };
        let in_proj = in_proj.prepare(gpu, rows, &self.x, &self.projected).await?;
        work.extend(dispatched(in_proj));
        work.push(Work::Clear(shared.conv_state.clone()));
        let conv = Conv {
            spec: shared.specs.conv,
            weight: value(places.conv),
        };
        let buffers = [&self.projected, &shared.conv_state, &self.mixed];
        let conv = conv
            .prepare(gpu, rows, &self.arrays.lengths, buffers)
            .await?;
        work.extend(dispatched(conv));
        work.extend(self.operator_arrays(gpu, parameters, shared).await?);
        work.push(Work::Clear(shared.cache.scalars.clone()));
        let operator = shared.operator.bind(&self.arrays, &shared.cache).await?;
        work.extend(dispatched(operator.dispatches().to_vec()));
        work.extend(self.mixer_output(gpu, parameters, shared).await?);
        work.push(copied(&self.x, &self.after));
        let out_proj = Linear {
            weight: parameters.matrix(places.out_proj, Which::Value),
            bias: places.out_bias.map(value),
            input: Input::Plain,
            residual: true,
        };
        let out_proj = out_proj.prepare(gpu, rows, &shared.y, &self.after).await?;
        work.extend(dispatched(out_proj));
        if let Some(mlp) = &self.mlp {
            work.extend(self.mlp_forward(gpu, parameters, shared, mlp).await?);
        }
        Ok(work)
    }

    async fn mlp_forward(
        &self,
        gpu: &Gpu,
        parameters: &Parameters,
        shared: &Shared,
        mlp: &KeptMlp,
    ) -> Result<Vec<Work>> {
        let rows = shared.rows;
        let up = Linear {
            weight: parameters.matrix(mlp.places.up, Which::Value),
            bias: None,
            input: Input::Normed {
                weight: parameters.vector(mlp.places.norm, Which::Value),
                epsilon: shared.specs.norm.epsilon,
                scratch: &shared.normed,
            },
            residual: false,
        };
        let down = Linear {
            weight: parameters.matrix(mlp.places.down, Which::Value),
            bias: None,
            input: Input::Gated,
            residual: true,
        };
        let mut work = dispatched(up.prepare(gpu, rows, &self.after, &mlp.opened).await?);
        work.push(copied(&self.after, &mlp.after));
        work.extend(dispatched(
            down.prepare(gpu, rows, &mlp.opened, &mlp.after).await?,
        ));
        Ok(work)
    }

    /// What the operator takes, into the arrays that all blocks share.
    async fn operator_arrays(
        &self,
        gpu: &Gpu,
        parameters: &Parameters,
        shared: &Shared,
    ) -> Result<Vec<Work>> {
        let sources = Sources {
            mixed: &self.mixed,
            projected: &self.projected,
            positions: &shared.positions,
        };
        let read = self.places.read;
        let read_weights = read.map(|place| parameters.vector(place, Which::Value));
        let heads = &self.heads;
        let dispatches = match shared.specs.mixer {
            MixerSpecs::Mamba2(spec, _) => {
                let arrays = Mamba2Arrays {
                    spec,
                    heads,
                    read_weights,
                };
                arrays
                    .prepare(gpu, shared.rows, &sources, &self.arrays)
                    .await?
            }
            MixerSpecs::GatedDelta(spec, _) => {
                let arrays = DeltaArrays {
                    spec,
                    heads,
                    read_weights,
                };
                arrays
                    .prepare(gpu, shared.rows, &sources, &self.arrays)
                    .await?
            }
        };
        Ok(dispatched(dispatches))
    }

    /// What the mixer makes of the operator's output, into `y`.
    async fn mixer_output(
        &self,
        gpu: &Gpu,
        parameters: &Parameters,
        shared: &Shared,
    ) -> Result<Vec<Work>> {
        let weight = parameters.vector(self.places.out_norm, Which::Value);
        let (rows, o, y) = (shared.rows, &self.arrays.o, &shared.y);
        let dispatches = match shared.specs.mixer {
            MixerSpecs::Mamba2(_, spec) => {
                let output = Mamba2Output {
                    spec,
                    heads: &self.heads,
                    weight,
                };
                let sources = [o, &self.mixed, &self.projected];
                output.prepare(gpu, rows, sources, y).await?
            }
            MixerSpecs::GatedDelta(_, spec) => {
                let output = DeltaOutput { spec, weight };
                output.prepare(gpu, rows, [o, &self.projected], y).await?
            }
        };
        Ok(dispatched(dispatches))
    }
}

fn copied(from: &wgpu::Buffer, to: &wgpu::Buffer) -> Work {
    Work::Copy(from.clone(), to.clone(), from.size().min(to.size()))
}
