//! The softmax-attention mixer, forward and backward; the forward pass is that of `model/attention.rs`.

use super::convolved::{ConvolvedProjection, SiluConvTape};
use super::mixer_gradients::MixerGradients;
use crate::model::config::{AttentionConfig, ModelConfig};
use crate::model::tensors::{AttentionTensors, MixerTensors};
use crate::nn::attention::AttentionGradients;
use crate::nn::{Attention, Linear};

/// A softmax-attention mixer.
#[derive(Clone, Debug)]
pub(super) struct SoftmaxAttention {
    q: ConvolvedProjection,
    k: ConvolvedProjection,
    v: ConvolvedProjection,
    attention: Attention,
    o_proj: Linear<f64>,
}

/// What it leaves for the backward pass; arrays `[rows, heads, head_dim]`.
#[derive(Clone, Debug)]
pub(super) struct SoftmaxAttentionTape {
    convolved: [SiluConvTape; 3],
    q: Vec<f64>,
    k: Vec<f64>,
    v: Vec<f64>,
    o: Vec<f64>,
}

impl SoftmaxAttention {
    /// The mixer of these tensors.
    pub(super) fn new(
        model: &ModelConfig,
        config: &AttentionConfig,
        tensors: AttentionTensors<Vec<f64>>,
    ) -> Self {
        let (hidden, inner) = (model.hidden, config.inner());
        Self {
            q: ConvolvedProjection::new(hidden, inner, tensors.q),
            k: ConvolvedProjection::new(hidden, inner, tensors.k),
            v: ConvolvedProjection::new(hidden, inner, tensors.v),
            attention: config.attention(),
            o_proj: Linear::new(inner, tensors.o_proj, None),
        }
    }

    /// `x` `[rows, hidden]` of `sequences` sequences to the same shape.
    pub(super) fn forward(&self, x: &[f64], sequences: usize) -> (Vec<f64>, SoftmaxAttentionTape) {
        let (q, q_tape) = self.q.forward(x, sequences);
        let (k, k_tape) = self.k.forward(x, sequences);
        let (v, v_tape) = self.v.forward(x, sequences);
        let mut o = Vec::with_capacity(q.len());
        let each = (q.len() / sequences).max(1);
        for first in (0..q.len()).step_by(each) {
            let part = first..first + each;
            o.extend(
                self.attention
                    .forward(&q[part.clone()], &k[part.clone()], &v[part]),
            );
        }
        let out = self.o_proj.forward(&o);
        let convolved = [q_tape, k_tape, v_tape];
        (
            out,
            SoftmaxAttentionTape {
                convolved,
                q,
                k,
                v,
                o,
            },
        )
    }

    /// The gradients of Σ out·d_out; `x` is what the forward pass took.
    pub(super) fn backward(
        &self,
        tape: &SoftmaxAttentionTape,
        x: &[f64],
        d_out: &[f64],
        sequences: usize,
    ) -> MixerGradients {
        let o_proj = self.o_proj.backward(&tape.o, d_out);
        let d = self.attention_backward(tape, &o_proj.x, sequences);
        let mut d_x = vec![0.0; x.len()];
        let [q, k, v] = &tape.convolved;
        let tensors = AttentionTensors {
            q: self.q.backward(q, (x, &mut d_x), &d.q, sequences),
            k: self.k.backward(k, (x, &mut d_x), &d.k, sequences),
            v: self.v.backward(v, (x, &mut d_x), &d.v, sequences),
            o_proj: o_proj.weight,
        };
        MixerGradients {
            x: d_x,
            tensors: MixerTensors::Attention(tensors),
            dla: None,
        }
    }

    fn attention_backward(
        &self,
        tape: &SoftmaxAttentionTape,
        d_o: &[f64],
        sequences: usize,
    ) -> AttentionGradients<f64> {
        let mut all = AttentionGradients {
            q: Vec::new(),
            k: Vec::new(),
            v: Vec::new(),
        };
        let each = (d_o.len() / sequences).max(1);
        for first in (0..d_o.len()).step_by(each) {
            let part = |x: &'_ [f64]| x[first..first + each].to_vec();
            let [q, k, v, d_o] = [&tape.q, &tape.k, &tape.v, d_o].map(part);
            let one = self.attention.backward(&q, &k, &v, &d_o);
            all.q.extend(one.q);
            all.k.extend(one.k);
            all.v.extend(one.v);
        }
        all
    }
}
