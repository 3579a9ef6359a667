//! The Mamba-2 mixer, forward and backward; the forward pass is that of `model/mamba2.rs`.

use super::convolved::{SiluConv, SiluConvTape};
use super::mixer_gradients::MixerGradients;
use super::operator::{Arrays, LayerRun, Operator, OperatorTape};
use crate::decisions::Trace;
use crate::dla::gate::Gate;
use crate::error::Result;
use crate::model::config::{Mamba2Config, ModelConfig};
use crate::model::tensors::{Mamba2Tensors, MixerTensors};
use crate::nn::activation::{sigmoid, softplus};
use crate::nn::decay::{self, log_decay, log_decay_slope};
use crate::nn::{CausalConv, Linear, RmsNorm};
use crate::vector::{add, dot};

/// A Mamba-2 mixer.
#[derive(Clone, Debug)]
pub(super) struct Mamba2 {
    config: Mamba2Config,
    in_proj: Linear<f64>,
    conv: SiluConv,
    /// The [`decay::rate`]s of A_log, `[heads]`.
    rates: Vec<f64>,
    /// `[heads]`.
    dt_bias: Vec<f64>,
    /// `[heads]`.
    d: Vec<f64>,
    norm: RmsNorm<f64>,
    out_proj: Linear<f64>,
    operator: Operator,
}

/// What it leaves for the backward pass.
#[derive(Clone, Debug)]
pub(super) struct Mamba2Tape {
    /// The gate, `[rows, inner]`.
    z: Vec<f64>,
    conv: SiluConvTape,
    /// Δ before its softplus, the bias added, `[rows, heads]`.
    steps: Vec<f64>,
    /// Δ, `[rows, heads]`.
    dt: Vec<f64>,
    /// `[rows, heads, head_dim]`.
    values: Vec<f64>,
    operator: OperatorTape,
    /// What the norm took, `[rows, inner]`.
    y: Vec<f64>,
    /// What it gave.
    normed: Vec<f64>,
}

impl Mamba2Tape {
    /// What was measured and decided.
    pub(super) fn into_trace(self) -> Trace {
        self.operator.trace
    }
}

impl Mamba2 {
    /// The mixer of these tensors.
    pub(super) fn new(
        model: &ModelConfig,
        config: &Mamba2Config,
        tensors: Mamba2Tensors<Vec<f64>>,
        operator: Operator,
    ) -> Self {
        let norm = RmsNorm::new(tensors.norm, model.norm_epsilon.into());
        let conv = CausalConv::new(config.conv_channels(), tensors.conv, tensors.conv_bias);
        Self {
            config: config.clone(),
            in_proj: Linear::new(model.hidden, tensors.in_proj, tensors.in_bias),
            conv: SiluConv(conv),
            rates: tensors.a_log.into_iter().map(decay::rate).collect(),
            dt_bias: tensors.dt_bias,
            d: tensors.d,
            norm: norm.grouped(config.groups),
            out_proj: Linear::new(config.inner(), tensors.out_proj, tensors.out_bias),
            operator,
        }
    }

    /// `x` `[rows, hidden]` of `sequences` sequences to the same shape.
    pub(super) fn forward(
        &self,
        x: &[f64],
        sequences: usize,
        run: &LayerRun<'_>,
    ) -> Result<(Vec<f64>, Mamba2Tape)> {
        let (inner, keys) = (self.config.inner(), self.config.keys());
        let widths = [inner, self.config.conv_channels(), self.config.heads];
        let [z, xbc, mut steps] = split(&self.in_proj.forward(x), widths);
        let (xbc, conv) = self.conv.forward(xbc, sequences);
        let [values, k, q] = split(&xbc, [inner, keys, keys]);
        add_cycled(&mut steps, &self.dt_bias);
        let [least, most] = self.config.dt_limit.map(f64::from);
        let dt: Vec<f64> = steps
            .iter()
            .map(|&step| softplus(step).clamp(least, most))
            .collect();
        let arrays = Arrays {
            q,
            k,
            v: self.scaled(&values, &dt),
            g: steps
                .iter()
                .zip(&dt)
                .zip(self.rates.iter().cycle())
                .map(|((&step, &size), &rate)| log_decay(rate, step, size))
                .collect(),
            beta: None,
        };
        let (mut y, operator) = self.operator.forward(x, arrays, sequences, run)?;
        let d = self.d.repeat(dt.len() / self.config.heads);
        add(&mut y, &self.scaled(&values, &d));
        let normed = self.norm.gate_first(&y, &z);
        let out = self.out_proj.forward(&normed);
        let tape = Mamba2Tape {
            z,
            conv,
            steps,
            dt,
            values,
            operator,
            y,
            normed,
        };
        Ok((out, tape))
    }

    /// The gradients of Σ out·d_out; `x` is what the forward pass took.
    pub(super) fn backward(
        &self,
        tape: &Mamba2Tape,
        x: &[f64],
        d_out: &[f64],
        sequences: usize,
        gate: &Gate,
    ) -> Result<MixerGradients> {
        let mut d_x = vec![0.0; x.len()];
        let out_proj = self.out_proj.backward(&tape.normed, d_out);
        let norm = self.norm.gate_first_backward(&tape.y, &tape.z, &out_proj.x);
        let both = (x, &mut d_x[..]);
        let d = self
            .operator
            .backward(&tape.operator, both, &norm.x, sequences, gate)?;
        let back = self.arrays_backward(tape, &norm.x, &d.arrays);
        let xbc = join(
            [&back.values, &d.arrays.k, &d.arrays.q],
            tape.dt.len() / self.rates.len(),
        );
        let conv = self.conv.backward(&tape.conv, &xbc, sequences);
        let rows = join(
            [&norm.gate, &conv.x, &back.steps],
            tape.dt.len() / self.rates.len(),
        );
        let in_proj = self.in_proj.backward(x, &rows);
        add(&mut d_x, &in_proj.x);
        let tensors = Mamba2Tensors {
            in_proj: in_proj.weight,
            in_bias: in_proj.bias,
            conv: conv.weight,
            conv_bias: conv.bias,
            a_log: back.a_log,
            dt_bias: back.dt_bias,
            d: back.d,
            norm: norm.weight,
            out_proj: out_proj.weight,
            out_bias: out_proj.bias,
        };
        Ok(MixerGradients {
            x: d_x,
            tensors: MixerTensors::Mamba2(tensors),
            dla: d.dla,
        })
    }

    /// Back through v = Δ·x, g = Δ·A, the skip D·x and Δ itself; `d_y` `[rows, inner]` is the
    /// gradient by the operator's output and the skip's.
    fn arrays_backward(&self, tape: &Mamba2Tape, d_y: &[f64], d: &Arrays) -> ArraysGradients {
        let (heads, width) = (self.config.heads, self.config.head_dim);
        let zeros = || vec![0.0; heads];
        let mut back = ArraysGradients {
            values: vec![0.0; tape.values.len()],
            steps: vec![0.0; tape.dt.len()],
            a_log: zeros(),
            dt_bias: zeros(),
            d: zeros(),
        };
        for (at, &dt) in tape.dt.iter().enumerate() {
            let (h, head) = (at % heads, at * width..(at + 1) * width);
            let (x, d_v, d_y) = (
                &tape.values[head.clone()],
                &d.v[head.clone()],
                &d_y[head.clone()],
            );
            for (i, d_value) in back.values[head].iter_mut().enumerate() {
                *d_value = dt * d_v[i] + self.d[h] * d_y[i];
            }
            back.d[h] += dot(x, d_y);
            let (rate, step) = (self.rates[h], tape.steps[at]);
            back.a_log[h] += d.g[at] * log_decay(rate, step, dt); // dg/dA_log = g
            if !self.is_held(softplus(step)) {
                let slope = log_decay_slope(rate, step, dt);
                back.steps[at] = dot(x, d_v) * sigmoid(step) + d.g[at] * slope;
            }
            back.dt_bias[h] += back.steps[at];
        }
        back
    }

    /// Whether the clamp holds Δ, so that its derivative is 0.
    fn is_held(&self, size: f64) -> bool {
        let [least, most] = self.config.dt_limit.map(f64::from);
        size < least || size > most
    }

    /// `x` `[rows, heads, head_dim]`, each head times its own of `scales` `[rows, heads]`.
    fn scaled(&self, x: &[f64], scales: &[f64]) -> Vec<f64> {
        let heads = x.chunks_exact(self.config.head_dim).zip(scales);
        heads
            .flat_map(|(x, scale)| x.iter().map(move |x| x * scale))
            .collect()
    }
}

/// What [`Mamba2::arrays_backward`] gives.
struct ArraysGradients {
    /// By x, `[rows, heads, head_dim]`.
    values: Vec<f64>,
    /// By Δ before its softplus, `[rows, heads]`.
    steps: Vec<f64>,
    /// `[heads]`.
    a_log: Vec<f64>,
    /// `[heads]`.
    dt_bias: Vec<f64>,
    /// `[heads]`.
    d: Vec<f64>,
}

/// The columns of `rows` in parts of these widths, each `[rows, width]`.
fn split<const N: usize>(rows: &[f64], widths: [usize; N]) -> [Vec<f64>; N] {
    let mut parts = [const { Vec::new() }; N];
    for mut row in rows.chunks_exact(widths.iter().sum()) {
        for (part, width) in parts.iter_mut().zip(widths) {
            let (own, rest) = row.split_at(width);
            part.extend_from_slice(own);
            row = rest;
        }
    }
    parts
}

/// The inverse of [`split`] for `rows` rows.
fn join<const N: usize>(parts: [&[f64]; N], rows: usize) -> Vec<f64> {
    let mut joined = Vec::with_capacity(parts.iter().map(|part| part.len()).sum());
    for row in 0..rows {
        for part in parts {
            let width = part.len() / rows;
            joined.extend_from_slice(&part[row * width..][..width]);
        }
    }
    joined
}

/// Adds `bias` to every row of `x`.
fn add_cycled(x: &mut [f64], bias: &[f64]) {
    x.iter_mut()
        .zip(bias.iter().cycle())
        .for_each(|(x, bias)| *x += bias);
}
