//! A block backwards: every pass of the forward one, from the last to the first.

use dla_core::Result;
use dla_wgpu::nn::RmsNorm;
use dla_wgpu::nn::backward::{
    ColumnSums, ColumnSumsSpec, ConvGradient, ConvGradientSpec, GatedGradient, GatedGradientSpec,
    InputGradient, MatrixGradient, RmsNormGradient,
};

use super::super::parameters::Which;
use super::super::work::{Work, dispatched};
use super::call::Call;
use super::{Block, KeptMlp};

impl Block {
    /// The work of the backward pass: `d_x` goes from after the block to before it.
    pub(in crate::device) async fn backward(&self, call: &Call<'_>) -> Result<Vec<Work>> {
        let mut work = Vec::new();
        if let Some(mlp) = &self.mlp {
            work.extend(self.mlp_backward(call, mlp).await?);
        }
        work.extend(self.mixer.output_again(call).await?);
        work.extend(self.output_backward(call).await?);
        work.extend(self.mixer.backward(call).await?);
        work.extend(self.input_backward(call).await?);
        Ok(work)
    }

    async fn mlp_backward(&self, call: &Call<'_>, mlp: &KeptMlp) -> Result<Vec<Work>> {
        let Call {
            gpu,
            parameters,
            shared,
        } = *call;
        let (rows, places, scratch) = (shared.rows, mlp.places, &shared.scratch);
        let weight = |place| parameters.weight(place);
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
        work.extend(norm_backward(call, places.norm, &self.after).await?);
        Ok(work)
    }

    /// From `d_x` through the last projection to `d_y`.
    async fn output_backward(&self, call: &Call<'_>) -> Result<Vec<Work>> {
        let Call {
            gpu,
            parameters,
            shared,
        } = *call;
        let (rows, places, scratch) = (shared.rows, &self.places, &shared.scratch);
        let d_out = MatrixGradient {
            d_weight: parameters.matrix(places.out_proj, Which::Gradient),
            scratch,
        };
        let y = self.mixer.output();
        let mut dispatches = d_out.prepare(gpu, rows, &shared.d_x, y).await?;
        if let Some(bias) = places.out_bias {
            let sums = ColumnSums {
                spec: ColumnSumsSpec::all(shared.specs.norm.width),
                scratch,
            };
            let total = (parameters.vector(bias, Which::Gradient), 0);
            dispatches.extend(sums.prepare(gpu, rows.count()?, &shared.d_x, total).await?);
        }
        let out = InputGradient {
            weight: parameters.weight(places.out_proj),
            residual: false,
        };
        dispatches.extend(out.prepare(gpu, rows, &shared.d_x, &shared.d_y).await?);
        Ok(dispatched(dispatches))
    }

    /// Through the convolution, the projections and the norm to `d_x`.
    async fn input_backward(&self, call: &Call<'_>) -> Result<Vec<Work>> {
        let Call {
            gpu,
            parameters,
            shared,
        } = *call;
        let (rows, places, scratch) = (shared.rows, &self.places, &shared.scratch);
        let conv = ConvGradient {
            spec: ConvGradientSpec {
                conv: shared.specs.conv,
                bias: self.conv_bias,
            },
            weight: parameters.vector(places.conv, Which::Value),
            scratch,
        };
        let from = [&shared.lengths, &self.kept.projected];
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
            weight: parameters.weight(places.in_proj),
            residual: false,
        };
        dispatches.extend(
            input
                .prepare(gpu, rows, d_projected, &shared.d_normed)
                .await?,
        );
        let mut work = dispatched(dispatches);
        work.extend(norm_backward(call, places.norm, &self.x).await?);
        Ok(work)
    }
}

/// From `d_normed` through a norm of `x`, added to `d_x`.
async fn norm_backward(call: &Call<'_>, place: usize, x: &wgpu::Buffer) -> Result<Vec<Work>> {
    let Call {
        gpu,
        parameters,
        shared,
    } = *call;
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
