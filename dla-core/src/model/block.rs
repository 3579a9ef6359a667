//! One block: norm, mixer and residual; with Gated DeltaNet also norm, MLP and residual.

use super::config::{MixerConfig, ModelConfig};
use super::gated_delta::GatedDelta;
use super::mamba2::Mamba2;
use super::session::LayerState;
use super::weights::{Scope, linear};
use crate::decisions::{Decisions, Trace};
use crate::error::Result;
use crate::nn::activation::silu;
use crate::nn::{Linear, RmsNorm};

/// A block of the model.
#[derive(Clone, Debug)]
pub(super) struct Block {
    norm: RmsNorm,
    mixer: Mixer,
    mlp: Option<(RmsNorm, Mlp)>,
}

#[derive(Clone, Debug)]
enum Mixer {
    Mamba2(Box<Mamba2>),
    GatedDelta(Box<GatedDelta>),
}

impl Block {
    /// The block whose tensors are in `weights`.
    pub(super) fn load(config: &ModelConfig, weights: &mut Scope<'_>) -> Result<Self> {
        match &config.mixer {
            MixerConfig::Mamba2(mixer) => Ok(Self {
                norm: norm(config, weights, "norm.weight")?,
                mixer: Mixer::Mamba2(
                    Mamba2::load(config, mixer, &mut weights.within("mixer"))?.into(),
                ),
                mlp: None,
            }),
            MixerConfig::GatedDelta(mixer) => Ok(Self {
                norm: norm(config, weights, "attn_norm.weight")?,
                mixer: Mixer::GatedDelta(
                    GatedDelta::load(config, mixer, &mut weights.within("attn"))?.into(),
                ),
                mlp: Some((
                    norm(config, weights, "mlp_norm.weight")?,
                    Mlp::load(
                        config.hidden,
                        mixer.intermediate,
                        &mut weights.within("mlp"),
                    )?,
                )),
            }),
        }
    }

    /// The residual stream `x` `[tokens, hidden]` through the block; `state` goes on to after it.
    /// What the operator measured and decided is given back; it follows `replay` where that is given.
    pub(super) fn forward(
        &self,
        x: &mut [f32],
        state: &mut LayerState,
        replay: Option<&Decisions>,
    ) -> Result<Trace> {
        let normed = self.norm.forward(x);
        let (mixed, trace) = match &self.mixer {
            Mixer::Mamba2(mixer) => mixer.forward(&normed, state, replay)?,
            Mixer::GatedDelta(mixer) => mixer.forward(&normed, state, replay)?,
        };
        add(x, &mixed);
        if let Some((norm, mlp)) = &self.mlp {
            let change = mlp.forward(&norm.forward(x));
            add(x, &change);
        }
        Ok(trace)
    }
}

/// The norm of the residual stream.
pub(super) fn norm(config: &ModelConfig, weights: &mut Scope<'_>, name: &str) -> Result<RmsNorm> {
    let weight = weights.tensor(name, &[config.hidden])?;
    Ok(RmsNorm::new(weight, config.norm_epsilon))
}

fn add(x: &mut [f32], change: &[f32]) {
    x.iter_mut()
        .zip(change)
        .for_each(|(x, change)| *x += change);
}

/// `down(SiLU(gate x) · up x)`.
#[derive(Clone, Debug)]
struct Mlp {
    gate: Linear,
    up: Linear,
    down: Linear,
}

impl Mlp {
    fn load(hidden: usize, inner: usize, weights: &mut Scope<'_>) -> Result<Self> {
        Ok(Self {
            gate: linear(weights, "gate_proj.weight", [inner, hidden])?,
            up: linear(weights, "up_proj.weight", [inner, hidden])?,
            down: linear(weights, "down_proj.weight", [hidden, inner])?,
        })
    }

    fn forward(&self, x: &[f32]) -> Vec<f32> {
        let mut y = self.gate.forward(x);
        let up = self.up.forward(x);
        y.iter_mut().zip(&up).for_each(|(y, up)| *y = silu(*y) * up);
        self.down.forward(&y)
    }
}
