//! One block forwards, keeping what the way back needs, and backwards.

use dla_core::model::ModelConfig;
use dla_core::{Result, Schedule};
use dla_wgpu::Gpu;
use dla_wgpu::model::MixerSpecs;
use dla_wgpu::nn::backward::{
    ArrayGradients, ColumnSums, ColumnSumsSpec, ConvGradient, ConvGradientSpec, DecayRates,
    DeltaArraysGradient, DeltaOutputGradient, GatedGradient, GatedGradientSpec, InputGradient,
    Mamba2ArraysGradient, Mamba2OutputGradient, MatrixGradient, ReadWeightsGradient,
    ReadWeightsGradientSpec, RmsNormGradient,
};
use dla_wgpu::nn::{
    self, Conv, DeltaArrays, DeltaOutput, Input, Linear, Mamba2Arrays, Mamba2Output, RmsNorm,
    Sources,
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

    /// The work of the backward pass: `d_x` goes from after the block to before it.
    pub(super) async fn backward(
        &self,
        gpu: &Gpu,
        parameters: &Parameters,
        shared: &Shared,
    ) -> Result<Vec<Work>> {
        let mut work = Vec::new();
        if let Some(mlp) = &self.mlp {
            work.extend(self.mlp_backward(gpu, parameters, shared, mlp).await?);
        }
        work.extend(self.mixer_output(gpu, parameters, shared).await?);
        work.extend(self.output_backward(gpu, parameters, shared).await?);
        work.extend(self.operator_arrays(gpu, parameters, shared).await?);
        work.push(Work::Clear(shared.gradients.d_states.clone()));
        let backward = &shared.backward;
        let bound = backward
            .bind(&self.arrays, &shared.start, &shared.gradients)
            .await?;
        work.push(Work::Backward(Box::new(bound)));
        work.extend(self.arrays_backward(gpu, parameters, shared).await?);
        work.extend(self.input_backward(gpu, parameters, shared).await?);
        Ok(work)
    }

    async fn mlp_backward(
        &self,
        gpu: &Gpu,
        parameters: &Parameters,
        shared: &Shared,
        mlp: &KeptMlp,
    ) -> Result<Vec<Work>> {
        let (rows, places, scratch) = (shared.rows, mlp.places, &shared.scratch);
        let weight = |place| parameters.matrix(place, Which::Value);
        let d_weight = |place| parameters.matrix(place, Which::Gradient);
        let down = InputGradient {
            weight: weight(places.down),
            residual: false,
        };
        let mut dispatches = down
            .prepare(gpu, rows, &shared.d_x, &shared.d_product)
            .await?;
        let gated = GatedGradient {
            spec: GatedGradientSpec {
                width: shared.specs.inner.unwrap_or(1),
            },
        };
        let (from, to) = (
            [&mlp.opened, &shared.d_product],
            [&shared.d_opened, &shared.product],
        );
        dispatches.extend(gated.prepare(gpu, rows, from, to).await?);
        let d_down = MatrixGradient {
            d_weight: d_weight(places.down),
            scratch,
        };
        dispatches.extend(
            d_down
                .prepare(gpu, rows, &shared.d_x, &shared.product)
                .await?,
        );
        let norm = RmsNorm {
            weight: parameters.vector(places.norm, Which::Value),
            spec: shared.specs.norm,
        };
        dispatches.extend(norm.prepare(gpu, rows, &self.after, &shared.normed).await?);
        let d_up = MatrixGradient {
            d_weight: d_weight(places.up),
            scratch,
        };
        dispatches.extend(
            d_up.prepare(gpu, rows, &shared.d_opened, &shared.normed)
                .await?,
        );
        let up = InputGradient {
            weight: weight(places.up),
            residual: false,
        };
        dispatches.extend(
            up.prepare(gpu, rows, &shared.d_opened, &shared.d_normed)
                .await?,
        );
        let mut work = dispatched(dispatches);
        work.extend(norm_backward(gpu, parameters, shared, places.norm, &self.after).await?);
        Ok(work)
    }

    /// From `d_x` through the last projection and the mixer's output to the operator's.
    async fn output_backward(
        &self,
        gpu: &Gpu,
        parameters: &Parameters,
        shared: &Shared,
    ) -> Result<Vec<Work>> {
        let (rows, places, scratch) = (shared.rows, &self.places, &shared.scratch);
        let d_y = &shared.gradients.d_o;
        let d_out = MatrixGradient {
            d_weight: parameters.matrix(places.out_proj, Which::Gradient),
            scratch,
        };
        let mut dispatches = d_out.prepare(gpu, rows, &shared.d_x, &shared.y).await?;
        if let Some(bias) = places.out_bias {
            let sums = ColumnSums {
                spec: ColumnSumsSpec::all(shared.specs.norm.width),
                scratch,
            };
            let total = (parameters.vector(bias, Which::Gradient), 0);
            dispatches.extend(sums.prepare(gpu, rows.count()?, &shared.d_x, total).await?);
        }
        let out = InputGradient {
            weight: parameters.matrix(places.out_proj, Which::Value),
            residual: false,
        };
        dispatches.extend(out.prepare(gpu, rows, &shared.d_x, d_y).await?);
        let weight = parameters.vector(places.out_norm, Which::Value);
        let d_weight = parameters.vector(places.out_norm, Which::Gradient);
        let (terms, o) = (&shared.terms, &self.arrays.o);
        let to = [d_y, &shared.d_projected];
        dispatches.extend(match shared.specs.mixer {
            MixerSpecs::Mamba2(_, spec) => {
                let output = Mamba2OutputGradient {
                    spec,
                    heads: &self.heads,
                    weight,
                    scratch,
                    terms,
                };
                let from = [o, &self.mixed, &self.projected];
                output.prepare(gpu, rows, from, to, d_weight).await?
            }
            MixerSpecs::GatedDelta(_, spec) => {
                let output = DeltaOutputGradient {
                    spec,
                    weight,
                    scratch,
                    terms,
                };
                let from = [o, &self.projected];
                output.prepare(gpu, rows, from, to, d_weight).await?
            }
        });
        Ok(dispatched(dispatches))
    }

    /// From the operator's gradients to those by the convolution's output, the heads, λ's weights and τ.
    async fn arrays_backward(
        &self,
        gpu: &Gpu,
        parameters: &Parameters,
        shared: &Shared,
    ) -> Result<Vec<Work>> {
        let (rows, places, scratch) = (shared.rows, &self.places, &shared.scratch);
        let gradients = &shared.gradients;
        let mut dispatches = Vec::new();
        if let (Some(read), Some(column)) = (places.read, shared.specs.lambda.column) {
            let gradient = ReadWeightsGradient {
                spec: ReadWeightsGradientSpec {
                    dims: shared.dims,
                    stride: shared.specs.stride,
                    column,
                    fenwick: shared.specs.lambda.fenwick,
                },
                read_weights: parameters.vector(read, Which::Value),
                scratch,
                terms: &shared.terms,
            };
            let from = [&shared.positions, &self.projected, &gradients.d_control];
            let d_read = parameters.vector(read, Which::Gradient);
            let to = &shared.d_projected;
            dispatches.extend(gradient.prepare(gpu, rows, from, to, d_read).await?);
        }
        if let (true, Some(tau)) = (self.learns_tau, places.tau) {
            let sums = ColumnSums {
                spec: ColumnSumsSpec::all(shared.dims.heads),
                scratch,
            };
            let total = (parameters.vector(tau, Which::Gradient), 0);
            dispatches.extend(sums.prepare(gpu, 1, &gradients.d_tau, total).await?);
        }
        let given = ArrayGradients {
            q: &gradients.d_q,
            k: &gradients.d_k,
            v: &gradients.d_v,
            control: &gradients.d_control,
        };
        let to = [&shared.d_mixed, &shared.d_projected];
        let d_heads = parameters.vector(places.heads, Which::Gradient);
        let heads = &self.heads;
        dispatches.extend(match shared.specs.mixer {
            MixerSpecs::Mamba2(spec, _) => {
                let arrays = Mamba2ArraysGradient {
                    spec,
                    heads,
                    scratch,
                };
                let from = [&self.mixed, &self.projected, &gradients.d_o];
                arrays.prepare(gpu, rows, from, given, to, d_heads).await?
            }
            MixerSpecs::GatedDelta(spec, _) => {
                let arrays = DeltaArraysGradient {
                    spec,
                    heads,
                    scratch,
                };
                let from = [&self.mixed, &self.projected];
                arrays.prepare(gpu, rows, from, given, to, d_heads).await?
            }
        });
        Ok(dispatched(dispatches))
    }

    /// Through the convolution, the projections and the norm to `d_x`.
    async fn input_backward(
        &self,
        gpu: &Gpu,
        parameters: &Parameters,
        shared: &Shared,
    ) -> Result<Vec<Work>> {
        let (rows, places, scratch) = (shared.rows, &self.places, &shared.scratch);
        let conv = ConvGradient {
            spec: ConvGradientSpec {
                conv: shared.specs.conv,
                bias: self.conv_bias,
            },
            weight: parameters.vector(places.conv, Which::Value),
            scratch,
        };
        let from = [&self.arrays.lengths, &self.projected];
        let to = [&shared.d_mixed, &shared.d_projected];
        let d_conv = parameters.vector(places.conv, Which::Gradient);
        let mut dispatches = conv.prepare(gpu, rows, from, to, d_conv).await?;
        let norm = RmsNorm {
            weight: parameters.vector(places.norm, Which::Value),
            spec: shared.specs.norm,
        };
        dispatches.extend(norm.prepare(gpu, rows, &self.x, &shared.normed).await?);
        let d_in = MatrixGradient {
            d_weight: parameters.matrix(places.in_proj, Which::Gradient),
            scratch,
        };
        let d_projected = &shared.d_projected;
        dispatches.extend(d_in.prepare(gpu, rows, d_projected, &shared.normed).await?);
        if let Some(bias) = places.in_bias {
            let sums = ColumnSums {
                spec: ColumnSumsSpec {
                    stride: shared.specs.stride,
                    first: 0,
                    every: 1,
                    columns: self.own_rows,
                },
                scratch,
            };
            let total = (parameters.vector(bias, Which::Gradient), 0);
            dispatches.extend(sums.prepare(gpu, rows.count()?, d_projected, total).await?);
        }
        let input = InputGradient {
            weight: parameters.matrix(places.in_proj, Which::Value),
            residual: false,
        };
        dispatches.extend(
            input
                .prepare(gpu, rows, d_projected, &shared.d_normed)
                .await?,
        );
        let mut work = dispatched(dispatches);
        work.extend(norm_backward(gpu, parameters, shared, places.norm, &self.x).await?);
        Ok(work)
    }
}

/// From `d_normed` through a norm of `x`, added to `d_x`.
async fn norm_backward(
    gpu: &Gpu,
    parameters: &Parameters,
    shared: &Shared,
    place: usize,
    x: &wgpu::Buffer,
) -> Result<Vec<Work>> {
    let norm = RmsNormGradient {
        weight: parameters.vector(place, Which::Value),
        spec: shared.specs.norm,
        residual: true,
        scratch: &shared.scratch,
        terms: &shared.terms,
    };
    let buffers = [x, &shared.d_normed, &shared.d_x];
    let d_norm = parameters.vector(place, Which::Gradient);
    Ok(dispatched(
        norm.prepare(gpu, shared.rows, buffers, d_norm).await?,
    ))
}

fn copied(from: &wgpu::Buffer, to: &wgpu::Buffer) -> Work {
    Work::Copy(from.clone(), to.clone(), from.size().min(to.size()))
}
