//! The Gated DeltaNet mixer, forward and backward; the forward pass is that of `model/gated_delta.rs`.

use super::convolved::{ConvolvedProjection, SiluConvTape};
use super::mixer_gradients::MixerGradients;
use super::operator::{Arrays, LayerRun, Operator, OperatorTape};
use crate::decisions::Trace;
use crate::dla::gate::Gate;
use crate::error::Result;
use crate::model::config::{GatedDeltaConfig, ModelConfig};
use crate::model::gated_delta::L2_EPSILON;
use crate::model::tensors::{GatedDeltaTensors, MixerTensors};
use crate::nn::activation::{sigmoid, sigmoid_slope, softplus};
use crate::nn::decay::{self, log_decay, log_decay_slope};
use crate::nn::norm::{self, GatedNormGradients};
use crate::nn::{Linear, RmsNorm};
use crate::vector::add;

/// A Gated DeltaNet mixer.
#[derive(Clone, Debug)]
pub(super) struct GatedDelta {
    config: GatedDeltaConfig,
    q: ConvolvedProjection,
    k: ConvolvedProjection,
    v: ConvolvedProjection,
    a_proj: Linear<f64>,
    b_proj: Linear<f64>,
    /// The [`decay::rate`]s of A_log, `[value_heads]`.
    rates: Vec<f64>,
    /// `[value_heads]`.
    dt_bias: Vec<f64>,
    g_proj: Option<Linear<f64>>,
    o_norm: RmsNorm<f64>,
    o_proj: Linear<f64>,
    operator: Operator,
}

/// What it leaves for the backward pass.
#[derive(Clone, Debug)]
pub(super) struct GatedDeltaTape {
    q: SiluConvTape,
    k: SiluConvTape,
    v: SiluConvTape,
    /// q before its length is taken, `[rows, keys]`.
    raw_q: Vec<f64>,
    /// k before its length is taken, `[rows, keys]`.
    raw_k: Vec<f64>,
    /// a + bias, `[rows, value_heads]`.
    steps: Vec<f64>,
    /// b, `[rows, value_heads]`.
    strength: Vec<f64>,
    operator: OperatorTape,
    /// What the norm took, `[rows, values]`.
    o: Vec<f64>,
    /// The gate, `[rows, values]`.
    gate: Option<Vec<f64>>,
    /// What norm and gate gave.
    normed: Vec<f64>,
}

impl GatedDeltaTape {
    /// What was measured and decided.
    pub(super) fn into_trace(self) -> Trace {
        self.operator.trace
    }
}

impl GatedDelta {
    /// The mixer of these tensors.
    pub(super) fn new(
        model: &ModelConfig,
        config: &GatedDeltaConfig,
        tensors: GatedDeltaTensors<Vec<f64>>,
        operator: Operator,
    ) -> Self {
        let (hidden, keys, values) = (model.hidden, config.keys(), config.values());
        let projection = |weight| Linear::new(hidden, weight, None);
        Self {
            config: config.clone(),
            q: ConvolvedProjection::new(hidden, keys, tensors.q),
            k: ConvolvedProjection::new(hidden, keys, tensors.k),
            v: ConvolvedProjection::new(hidden, values, tensors.v),
            a_proj: projection(tensors.a_proj),
            b_proj: projection(tensors.b_proj),
            rates: tensors.a_log.into_iter().map(decay::rate).collect(),
            dt_bias: tensors.dt_bias,
            g_proj: tensors.g_proj.map(projection),
            o_norm: RmsNorm::new(tensors.o_norm, model.norm_epsilon.into()),
            o_proj: Linear::new(values, tensors.o_proj, None),
            operator,
        }
    }

    /// `x` `[rows, hidden]` of `sequences` sequences to the same shape.
    pub(super) fn forward(
        &self,
        x: &[f64],
        sequences: usize,
        run: &LayerRun<'_>,
    ) -> Result<(Vec<f64>, GatedDeltaTape)> {
        let (raw_q, q) = self.q.forward(x, sequences);
        let (raw_k, k) = self.k.forward(x, sequences);
        let (values, v) = self.v.forward(x, sequences);
        let biases = self.dt_bias.iter().cycle();
        let steps = self.a_proj.forward(x).into_iter().zip(biases);
        let steps: Vec<f64> = steps.map(|(a, bias)| a + bias).collect();
        let strength = self.b_proj.forward(x);
        let decays = steps.iter().zip(self.rates.iter().cycle());
        let arrays = Arrays {
            q: self.unit(&raw_q, self.query_scale()),
            k: self.unit(&raw_k, 1.0),
            v: values,
            g: decays
                .map(|(&step, &rate)| log_decay(rate, step, softplus(step)))
                .collect(),
            beta: Some(strength.iter().map(|&b| self.most() * sigmoid(b)).collect()),
        };
        let (o, operator) = self.operator.forward(x, arrays, sequences, run)?;
        let gate = self.g_proj.as_ref().map(|gate| gate.forward(x));
        let normed = match &gate {
            Some(gate) => self.o_norm.norm_first(&o, gate),
            None => self.o_norm.forward(&o),
        };
        let out = self.o_proj.forward(&normed);
        let tape = GatedDeltaTape {
            q,
            k,
            v,
            raw_q,
            raw_k,
            steps,
            strength,
            operator,
            o,
            gate,
            normed,
        };
        Ok((out, tape))
    }

    /// The gradients of Σ out·d_out; `x` is what the forward pass took.
    pub(super) fn backward(
        &self,
        tape: &GatedDeltaTape,
        x: &[f64],
        d_out: &[f64],
        sequences: usize,
        gate: &Gate,
    ) -> Result<MixerGradients> {
        let mut d_x = vec![0.0; x.len()];
        let o_proj = self.o_proj.backward(&tape.normed, d_out);
        let norm = self.norm_backward(tape, &o_proj.x);
        let both = (x, &mut d_x[..]);
        let d = self
            .operator
            .backward(&tape.operator, both, &norm.x, sequences, gate)?;
        let d_q = self.unit_backward(&tape.raw_q, self.query_scale(), &d.arrays.q);
        let d_k = self.unit_backward(&tape.raw_k, 1.0, &d.arrays.k);
        let scalars = self.scalars_backward(tape, &d.arrays);
        let mut through = |linear: &Linear<f64>, d_y: &[f64]| {
            let d = linear.backward(x, d_y);
            add(&mut d_x, &d.x);
            d.weight
        };
        let a_proj = through(&self.a_proj, &scalars.steps);
        let b_proj = through(&self.b_proj, &scalars.strength);
        let g_proj = self.g_proj.as_ref().map(|gate| through(gate, &norm.gate));
        let tensors = GatedDeltaTensors {
            q: self.q.backward(&tape.q, (x, &mut d_x), &d_q, sequences),
            k: self.k.backward(&tape.k, (x, &mut d_x), &d_k, sequences),
            v: self
                .v
                .backward(&tape.v, (x, &mut d_x), &d.arrays.v, sequences),
            a_proj,
            b_proj,
            a_log: scalars.a_log,
            dt_bias: scalars.dt_bias,
            g_proj,
            o_norm: norm.weight,
            o_proj: o_proj.weight,
        };
        Ok(MixerGradients {
            x: d_x,
            tensors: MixerTensors::GatedDelta(tensors),
            dla: d.dla,
        })
    }

    /// Back through the norm of each head and the gate; the gate's gradient is empty without one.
    fn norm_backward(&self, tape: &GatedDeltaTape, d_y: &[f64]) -> GatedNormGradients<f64> {
        match &tape.gate {
            Some(gate) => self.o_norm.norm_first_backward(&tape.o, gate, d_y),
            None => {
                let d = self.o_norm.backward(&tape.o, d_y);
                GatedNormGradients {
                    x: d.x,
                    gate: Vec::new(),
                    weight: d.weight,
                }
            }
        }
    }

    /// Back through g = −e^{A_log}·softplus(a + bias) and β = most · sigmoid(b).
    fn scalars_backward(&self, tape: &GatedDeltaTape, d: &Arrays) -> ScalarGradients {
        let heads = self.rates.len();
        let slopes = tape.strength.iter().zip(d.beta.iter().flatten());
        let mut back = ScalarGradients {
            steps: vec![0.0; tape.steps.len()],
            strength: slopes
                .map(|(&b, d)| d * self.most() * sigmoid_slope(b))
                .collect(),
            a_log: vec![0.0; heads],
            dt_bias: vec![0.0; heads],
        };
        for (at, &step) in tape.steps.iter().enumerate() {
            let (h, size) = (at % heads, softplus(step));
            back.steps[at] = d.g[at] * log_decay_slope(self.rates[h], step, size);
            back.a_log[h] += d.g[at] * log_decay(self.rates[h], step, size); // dg/dA_log = g
            back.dt_bias[h] += back.steps[at];
        }
        back
    }

    /// The rows of each key head at length `scale`.
    fn unit(&self, x: &[f64], scale: f64) -> Vec<f64> {
        let mut x = x.to_vec();
        norm::l2(&mut x, self.config.key_dim, L2_EPSILON.into(), scale);
        x
    }

    fn unit_backward(&self, x: &[f64], scale: f64, d_y: &[f64]) -> Vec<f64> {
        norm::l2_backward(x, self.config.key_dim, L2_EPSILON.into(), scale, d_y)
    }

    fn query_scale(&self) -> f64 {
        1.0 / (self.config.key_dim as f64).sqrt()
    }

    /// What β stays below.
    fn most(&self) -> f64 {
        self.config.most_strength().into()
    }
}

/// What [`GatedDelta::scalars_backward`] gives.
struct ScalarGradients {
    /// By a + bias, `[rows, value_heads]`.
    steps: Vec<f64>,
    /// By b, `[rows, value_heads]`.
    strength: Vec<f64>,
    /// `[value_heads]`.
    a_log: Vec<f64>,
    /// `[value_heads]`.
    dt_bias: Vec<f64>,
}
