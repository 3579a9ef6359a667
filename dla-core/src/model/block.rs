//! One block: norm, mixer and residual; with Gated DeltaNet also norm, MLP and residual.

use super::attention::SoftmaxAttention;
use super::call::Seen;
use super::config::{MixerConfig, ModelConfig};
use super::gated_delta::GatedDelta;
use super::mamba2::Mamba2;
use super::operator::Operator;
use super::session::LayerState;
use super::tensors::{BlockTensors, MixerTensors, MlpTensors};
use crate::decisions::Decisions;
use crate::error::Result;
use crate::nn::activation::silu;
use crate::nn::{Linear, RmsNorm};
use crate::parallel::{EXPONENTIAL, map_values};

/// A block of the model.
#[derive(Clone, Debug)]
pub(super) struct Block {
    norm: RmsNorm,
    mixer: Mixer,
    mlp: Option<Mlp>,
}

#[derive(Clone, Debug)]
enum Mixer {
    Mamba2(Box<Mamba2>),
    GatedDelta(Box<GatedDelta>),
    Attention(Box<SoftmaxAttention>),
}

impl Block {
    /// The block of these tensors.
    pub(super) fn new(config: &ModelConfig, tensors: BlockTensors<Vec<f32>>) -> Self {
        let operator = Operator::new(config, tensors.dla);
        Self {
            norm: RmsNorm::new(tensors.norm, config.norm_epsilon),
            mixer: match (&config.mixer, tensors.mixer) {
                (MixerConfig::Mamba2(mixer), MixerTensors::Mamba2(tensors)) => {
                    Mixer::Mamba2(Mamba2::new(config, mixer, tensors, operator).into())
                }
                (MixerConfig::GatedDelta(mixer), MixerTensors::GatedDelta(tensors)) => {
                    Mixer::GatedDelta(GatedDelta::new(config, mixer, tensors, operator).into())
                }
                (MixerConfig::Attention(mixer), MixerTensors::Attention(tensors)) => {
                    Mixer::Attention(SoftmaxAttention::new(config, mixer, tensors).into())
                }
                _ => unreachable!("tensors follow the settings"),
            },
            mlp: tensors.mlp.map(|tensors| Mlp::new(config, tensors)),
        }
    }

    /// The thresholds of the mixer's heads; none where the schedule has none.
    pub(super) fn tau(&self) -> &[f32] {
        match &self.mixer {
            Mixer::Mamba2(mixer) => mixer.operator().tau(),
            Mixer::GatedDelta(mixer) => mixer.operator().tau(),
            Mixer::Attention(_) => &[],
        }
    }

    /// The residual stream `x` `[tokens, hidden]` through the block; `state` goes on to after it.
    /// What the operator tells is given back, nothing for softmax attention; it follows
    /// `replay` where that is given.
    pub(super) fn forward(
        &self,
        x: &mut [f32],
        state: &mut LayerState,
        replay: Option<&Decisions>,
    ) -> Result<Seen> {
        let normed = self.norm.forward(x);
        let (mixed, seen) = match &self.mixer {
            Mixer::Mamba2(mixer) => mixer.forward(&normed, state, replay)?,
            Mixer::GatedDelta(mixer) => mixer.forward(&normed, state, replay)?,
            Mixer::Attention(mixer) => (mixer.forward(&normed, state), Seen::default()),
        };
        add(x, &mixed);
        if let Some(mlp) = &self.mlp {
            let change = mlp.forward(x);
            add(x, &change);
        }
        Ok(seen)
    }
}

fn add(x: &mut [f32], change: &[f32]) {
    x.iter_mut()
        .zip(change)
        .for_each(|(x, change)| *x += change);
}

/// `down(SiLU(gate x) · up x)`, x after a norm.
#[derive(Clone, Debug)]
struct Mlp {
    norm: RmsNorm,
    gate: Linear,
    up: Linear,
    down: Linear,
}

impl Mlp {
    fn new(config: &ModelConfig, tensors: MlpTensors<Vec<f32>>) -> Self {
        let hidden = config.hidden;
        let inner = tensors.gate.len() / hidden;
        Self {
            norm: RmsNorm::new(tensors.norm, config.norm_epsilon),
            gate: Linear::new(hidden, tensors.gate, None),
            up: Linear::new(hidden, tensors.up, None),
            down: Linear::new(inner, tensors.down, None),
        }
    }

    fn forward(&self, x: &[f32]) -> Vec<f32> {
        let x = self.norm.forward(x);
        let mut y = self.gate.forward(&x);
        let up = self.up.forward(&x);
        map_values(&mut y, EXPONENTIAL, |i, y| silu(y) * up[i]);
        self.down.forward(&y)
    }
}
