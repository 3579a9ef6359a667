//! A block backwards: every pass of the forward one, from the last to the first.

use dla_core::Result;
use dla_wgpu::Gpu;
use dla_wgpu::model::MixerSpecs;
use dla_wgpu::nn::RmsNorm;
use dla_wgpu::nn::backward::{
    ArrayGradients, ColumnSums, ColumnSumsSpec, ConvGradient, ConvGradientSpec,
    DeltaArraysGradient, DeltaOutputGradient, GatedGradient, GatedGradientSpec, InputGradient,
    Mamba2ArraysGradient, Mamba2OutputGradient, MatrixGradient, ReadWeightsGradient,
    ReadWeightsGradientSpec, RmsNormGradient,
};

use super::super::parameters::{Parameters, Which};
use super::super::plan::{Shared, Work, dispatched};
use super::{Block, KeptMlp};

impl Block {
    /// The work of the backward pass: `d_x` goes from after the block to before it.
    pub(in crate::device) async fn backward(
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
