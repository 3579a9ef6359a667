//! A softmax-attention mixer, in the style of fla's names: the baseline that the others are held against.

use super::config::{AttentionConfig, ModelConfig};
use super::convolved::ConvolvedProjection;
use super::session::LayerState;
use super::tensors::AttentionTensors;
use crate::nn::{Attention, Linear};

/// A softmax-attention mixer: q, k and v each projected, convolved and through SiLU as in Gated
/// DeltaNet, which tells near positions apart; causal attention over all tokens; a projection back.
#[derive(Clone, Debug)]
pub(super) struct SoftmaxAttention {
    q: ConvolvedProjection,
    k: ConvolvedProjection,
    v: ConvolvedProjection,
    attention: Attention,
    o_proj: Linear,
}

impl SoftmaxAttention {
    /// The mixer of these tensors.
    pub(super) fn new(
        model: &ModelConfig,
        config: &AttentionConfig,
        tensors: AttentionTensors<Vec<f32>>,
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

    /// `x` `[tokens, hidden]` to the same shape; `state` goes on to after them.
    pub(super) fn forward(&self, x: &[f32], state: &mut LayerState) -> Vec<f32> {
        let q = self.q.forward(x, &mut state.conv[0]);
        let k = self.k.forward(x, &mut state.conv[1]);
        let v = self.v.forward(x, &mut state.conv[2]);
        state.keys.extend(k);
        state.values.extend(v);
        let o = self.attention.forward(&q, &state.keys, &state.values);
        self.o_proj.forward(&o)
    }
}
