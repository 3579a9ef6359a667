//! The Gated DeltaNet mixer (arXiv 2412.06464), in the names of fla's checkpoints.

use super::call::Seen;
use super::config::{GatedDeltaConfig, ModelConfig};
use super::convolved::ConvolvedProjection;
use super::operator::{Arrays, Operator};
use super::session::LayerState;
use super::tensors::GatedDeltaTensors;
use crate::decisions::Decisions;
use crate::error::Result;
use crate::nn::activation::{sigmoid, softplus};
use crate::nn::{Linear, RmsNorm, decay, norm};

/// ε under the root of the keys' and queries' length.
pub(super) const L2_EPSILON: f32 = 1e-6;

/// A Gated DeltaNet mixer: q, k and v each projected, convolved and through SiLU, q and k of unit
/// length and q scaled by Dk^−½; the operator with g = −e^{A_log}·softplus(a + bias) and
/// β = sigmoid(b); a norm of each head, then the gate; a projection back.
#[derive(Clone, Debug)]
pub(super) struct GatedDelta {
    config: GatedDeltaConfig,
    q: ConvolvedProjection,
    k: ConvolvedProjection,
    v: ConvolvedProjection,
    a_proj: Linear,
    b_proj: Linear,
    /// The [`decay::rate`]s of A_log, `[value_heads]`.
    rates: Vec<f32>,
    /// `[value_heads]`.
    dt_bias: Vec<f32>,
    g_proj: Option<Linear>,
    o_norm: RmsNorm,
    o_proj: Linear,
    operator: Operator,
}

impl GatedDelta {
    /// The mixer of these tensors.
    pub(super) fn new(
        model: &ModelConfig,
        config: &GatedDeltaConfig,
        tensors: GatedDeltaTensors<Vec<f32>>,
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
            o_norm: RmsNorm::new(tensors.o_norm, model.norm_epsilon),
            o_proj: Linear::new(values, tensors.o_proj, None),
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
        let arrays = self.arrays(x, &mut state.conv);
        let (o, seen) = self.operator.forward(x, &arrays, state, replay)?;
        let y = match &self.g_proj {
            Some(gate) => self.o_norm.norm_first(&o, &gate.forward(x)),
            None => self.o_norm.forward(&o),
        };
        Ok((self.o_proj.forward(&y), seen))
    }

    /// What the operator takes.
    fn arrays(&self, x: &[f32], conv: &mut [Vec<f32>]) -> Arrays {
        let key_dim = self.config.key_dim;
        let mut q = self.q.forward(x, &mut conv[0]);
        let mut k = self.k.forward(x, &mut conv[1]);
        norm::l2(&mut q, key_dim, L2_EPSILON, 1.0 / (key_dim as f32).sqrt());
        norm::l2(&mut k, key_dim, L2_EPSILON, 1.0);
        Arrays {
            q,
            k,
            v: self.v.forward(x, &mut conv[2]),
            g: self.log_decay(x),
            beta: Some(self.write_strength(x)),
        }
    }

    /// g `[tokens, value_heads]`.
    fn log_decay(&self, x: &[f32]) -> Vec<f32> {
        let mut g = self.a_proj.forward(x);
        for row in g.chunks_exact_mut(self.rates.len()) {
            for (g, (&rate, bias)) in row.iter_mut().zip(self.rates.iter().zip(&self.dt_bias)) {
                let step = *g + bias;
                *g = decay::log_decay(rate, step, softplus(step));
            }
        }
        g
    }

    /// β `[tokens, value_heads]`.
    fn write_strength(&self, x: &[f32]) -> Vec<f32> {
        let most = self.config.most_strength();
        let mut beta = self.b_proj.forward(x);
        beta.iter_mut().for_each(|b| *b = most * sigmoid(*b));
        beta
    }
}
