//! The Mamba-2 mixer (arXiv 2405.21060), in the rows and names of its checkpoints.

use super::call::Seen;
use super::config::{Mamba2Config, ModelConfig};
use super::operator::{Arrays, Operator};
use super::session::LayerState;
use super::tensors::Mamba2Tensors;
use crate::decisions::Decisions;
use crate::error::Result;
use crate::nn::activation::{silu, softplus};
use crate::nn::{CausalConv, Linear, RmsNorm, decay};
use crate::parallel::{EXPONENTIAL, map_values};

/// A Mamba-2 mixer: one projection to z, x, B, C and Δ; a convolution over x, B, C; the operator
/// with k = B, q = C, v = Δ·x, g = Δ·A; the skip D·x; a gated norm by group; a projection back.
#[derive(Clone, Debug)]
pub(super) struct Mamba2 {
    config: Mamba2Config,
    in_proj: Linear,
    conv: CausalConv,
    /// The [`decay::rate`]s of A_log, `[heads]`.
    rates: Vec<f32>,
    /// `[heads]`.
    dt_bias: Vec<f32>,
    /// `[heads]`.
    d: Vec<f32>,
    norm: RmsNorm,
    out_proj: Linear,
    operator: Operator,
}

/// A projection, cut in parts, each `[tokens, …]`.
struct Split {
    z: Vec<f32>,
    xbc: Vec<f32>,
    dt: Vec<f32>,
}

impl Mamba2 {
    /// The mixer of these tensors.
    pub(super) fn new(
        model: &ModelConfig,
        config: &Mamba2Config,
        tensors: Mamba2Tensors<Vec<f32>>,
        operator: Operator,
    ) -> Self {
        let norm = RmsNorm::new(tensors.norm, model.norm_epsilon);
        let (hidden, inner) = (model.hidden, config.inner());
        Self {
            config: config.clone(),
            in_proj: Linear::new(hidden, tensors.in_proj, tensors.in_bias),
            conv: CausalConv::new(config.conv_channels(), tensors.conv, tensors.conv_bias),
            rates: tensors.a_log.into_iter().map(decay::rate).collect(),
            dt_bias: tensors.dt_bias,
            d: tensors.d,
            norm: norm.grouped(config.groups),
            out_proj: Linear::new(inner, tensors.out_proj, tensors.out_bias),
            operator,
        }
    }

    /// The operator inside.
    pub(super) fn operator(&self) -> &Operator {
        &self.operator
    }

    /// `x` `[tokens, hidden]` to the same shape; `state` goes on to after them.
    pub(super) fn forward(
        &self,
        x: &[f32],
        state: &mut LayerState,
        replay: Option<&Decisions>,
    ) -> Result<(Vec<f32>, Seen)> {
        let mut split = self.split(&self.in_proj.forward(x));
        let mut xbc = self.conv.forward(&split.xbc, &mut state.conv[0]);
        map_values(&mut xbc, EXPONENTIAL, |_, x| silu(x));
        let sizes = self.step_sizes(&mut split.dt);
        let (values, arrays) = self.arrays(&xbc, &split.dt, &sizes);
        let (mut y, seen) = self.operator.forward(x, &arrays, state, replay)?;
        self.add_skip(&mut y, &values);
        let y = self.norm.gate_first(&y, &split.z);
        Ok((self.out_proj.forward(&y), seen))
    }

    /// The projection's rows: z, then x, B, C, then Δ.
    fn split(&self, rows: &[f32]) -> Split {
        let (inner, channels) = (self.config.inner(), self.config.conv_channels());
        let (mut z, mut xbc, mut dt) = (Vec::new(), Vec::new(), Vec::new());
        for row in rows.chunks_exact(inner + channels + self.config.heads) {
            z.extend_from_slice(&row[..inner]);
            xbc.extend_from_slice(&row[inner..inner + channels]);
            dt.extend_from_slice(&row[inner + channels..]);
        }
        Split { z, xbc, dt }
    }

    /// Adds the bias to `steps`; gives Δ = clamp(softplus(steps)), both `[tokens, heads]`.
    fn step_sizes(&self, steps: &mut [f32]) -> Vec<f32> {
        let [least, most] = self.config.dt_limit;
        let steps = steps.iter_mut().zip(self.dt_bias.iter().cycle());
        let size = |(step, bias): (&mut f32, &f32)| {
            *step += bias;
            softplus(*step).clamp(least, most)
        };
        steps.map(size).collect()
    }

    /// x `[tokens, heads, head_dim]`, and what the operator takes.
    fn arrays(&self, xbc: &[f32], steps: &[f32], sizes: &[f32]) -> (Vec<f32>, Arrays) {
        let (inner, keys) = (self.config.inner(), self.config.keys());
        let (mut x, mut k, mut q) = (Vec::new(), Vec::new(), Vec::new());
        for row in xbc.chunks_exact(self.config.conv_channels()) {
            x.extend_from_slice(&row[..inner]);
            k.extend_from_slice(&row[inner..inner + keys]);
            q.extend_from_slice(&row[inner + keys..]);
        }
        let heads = x.chunks_exact(self.config.head_dim).zip(sizes);
        let v = heads
            .flat_map(|(x, dt)| x.iter().map(move |x| x * dt))
            .collect();
        let rates = self.rates.iter().cycle();
        let g = steps.iter().zip(sizes).zip(rates);
        let g = g.map(|((&step, &size), &rate)| decay::log_decay(rate, step, size));
        let g = g.collect();
        let beta = None;
        (x, Arrays { q, k, v, g, beta })
    }

    /// `y += D·x`.
    fn add_skip(&self, y: &mut [f32], x: &[f32]) {
        let width = self.config.head_dim;
        let heads = y.chunks_exact_mut(width).zip(x.chunks_exact(width));
        for ((y, x), d) in heads.zip(self.d.iter().cycle()) {
            y.iter_mut().zip(x).for_each(|(y, x)| *y += d * x);
        }
    }
}
