//! One block: norm, mixer, residual; where there is an MLP also norm, MLP, residual.

use super::attention::{SoftmaxAttention, SoftmaxAttentionTape};
use super::gated_delta::{GatedDelta, GatedDeltaTape};
use super::mamba2::{Mamba2, Mamba2Tape};
use super::operator::{LayerRun, Operator};
use crate::decisions::Trace;
use crate::dla::gate::Gate;
use crate::error::Result;
use crate::model::config::{MixerConfig, ModelConfig};
use crate::model::tensors::{BlockTensors, MixerTensors, MlpTensors};
use crate::nn::activation::{silu, silu_slope};
use crate::nn::{Linear, RmsNorm};
use crate::vector::add;

/// A block of the model.
#[derive(Clone, Debug)]
pub(super) struct Block {
    norm: RmsNorm<f64>,
    mixer: Mixer,
    mlp: Option<Mlp>,
}

#[derive(Clone, Debug)]
enum Mixer {
    Mamba2(Box<Mamba2>),
    GatedDelta(Box<GatedDelta>),
    Attention(Box<SoftmaxAttention>),
}

/// What a block's forward pass leaves for the backward pass.
#[derive(Clone, Debug)]
pub(super) struct BlockTape {
    /// The residual stream before the block, `[rows, hidden]`.
    x: Vec<f64>,
    /// That after the norm.
    normed: Vec<f64>,
    mixer: MixerTape,
    mlp: Option<MlpTape>,
}

#[derive(Clone, Debug)]
enum MixerTape {
    Mamba2(Box<Mamba2Tape>),
    GatedDelta(Box<GatedDeltaTape>),
    Attention(Box<SoftmaxAttentionTape>),
}

impl BlockTape {
    /// What the layer measured and decided.
    pub(super) fn into_trace(self) -> Trace {
        match self.mixer {
            MixerTape::Mamba2(tape) => tape.into_trace(),
            MixerTape::GatedDelta(tape) => tape.into_trace(),
            MixerTape::Attention(_) => Trace::default(),
        }
    }
}

impl Block {
    /// The block of these tensors.
    pub(super) fn new(config: &ModelConfig, tensors: BlockTensors<Vec<f64>>) -> Self {
        let operator = Operator::new(config, tensors.dla);
        Self {
            norm: RmsNorm::new(tensors.norm, config.norm_epsilon.into()),
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

    /// The residual stream `x` `[rows, hidden]` of `sequences` sequences through the block.
    pub(super) fn forward(
        &self,
        x: &mut [f64],
        sequences: usize,
        run: &LayerRun<'_>,
    ) -> Result<BlockTape> {
        let before = x.to_vec();
        let normed = self.norm.forward(x);
        let (y, mixer) = match &self.mixer {
            Mixer::Mamba2(mixer) => {
                let (y, tape) = mixer.forward(&normed, sequences, run)?;
                (y, MixerTape::Mamba2(tape.into()))
            }
            Mixer::GatedDelta(mixer) => {
                let (y, tape) = mixer.forward(&normed, sequences, run)?;
                (y, MixerTape::GatedDelta(tape.into()))
            }
            Mixer::Attention(mixer) => {
                let (y, tape) = mixer.forward(&normed, sequences);
                (y, MixerTape::Attention(tape.into()))
            }
        };
        add(x, &y);
        let mlp = self.mlp.as_ref().map(|mlp| mlp.forward(x));
        Ok(BlockTape {
            x: before,
            normed,
            mixer,
            mlp,
        })
    }

    /// Takes `d_x` `[rows, hidden]` from after the block to before it; gives the tensors' gradients.
    pub(super) fn backward(
        &self,
        tape: &BlockTape,
        d_x: &mut [f64],
        sequences: usize,
        gate: &Gate,
    ) -> Result<BlockTensors<Vec<f64>>> {
        let mlp = self.mlp.as_ref().zip(tape.mlp.as_ref());
        let mlp = mlp.map(|(mlp, tape)| mlp.backward(tape, d_x));
        let normed = &tape.normed;
        let mixer = match (&self.mixer, &tape.mixer) {
            (Mixer::Mamba2(mixer), MixerTape::Mamba2(tape)) => {
                mixer.backward(tape, normed, d_x, sequences, gate)?
            }
            (Mixer::GatedDelta(mixer), MixerTape::GatedDelta(tape)) => {
                mixer.backward(tape, normed, d_x, sequences, gate)?
            }
            (Mixer::Attention(mixer), MixerTape::Attention(tape)) => {
                mixer.backward(tape, normed, d_x, sequences)
            }
            _ => unreachable!("a tape is of its own mixer"),
        };
        let norm = self.norm.backward(&tape.x, &mixer.x);
        add(d_x, &norm.x);
        Ok(BlockTensors {
            norm: norm.weight,
            mixer: mixer.tensors,
            dla: mixer.dla,
            mlp,
        })
    }
}

/// `down(SiLU(gate x) · up x)`, x after a norm.
#[derive(Clone, Debug)]
struct Mlp {
    norm: RmsNorm<f64>,
    gate: Linear<f64>,
    up: Linear<f64>,
    down: Linear<f64>,
}

#[derive(Clone, Debug)]
struct MlpTape {
    /// The residual stream before the MLP, `[rows, hidden]`.
    x: Vec<f64>,
    /// That after the norm.
    normed: Vec<f64>,
    /// `[rows, inner]`.
    gate: Vec<f64>,
    /// `[rows, inner]`.
    up: Vec<f64>,
    /// SiLU(gate) · up.
    product: Vec<f64>,
}

impl Mlp {
    fn new(config: &ModelConfig, tensors: MlpTensors<Vec<f64>>) -> Self {
        let hidden = config.hidden;
        let inner = tensors.gate.len() / hidden;
        Self {
            norm: RmsNorm::new(tensors.norm, config.norm_epsilon.into()),
            gate: Linear::new(hidden, tensors.gate, None),
            up: Linear::new(hidden, tensors.up, None),
            down: Linear::new(inner, tensors.down, None),
        }
    }

    fn forward(&self, x: &mut [f64]) -> MlpTape {
        let before = x.to_vec();
        let normed = self.norm.forward(x);
        let (gate, up) = (self.gate.forward(&normed), self.up.forward(&normed));
        let product = gate.iter().zip(&up);
        let product: Vec<f64> = product.map(|(&gate, up)| silu(gate) * up).collect();
        add(x, &self.down.forward(&product));
        MlpTape {
            x: before,
            normed,
            gate,
            up,
            product,
        }
    }

    /// Takes `d_x` from after the MLP to before it.
    fn backward(&self, tape: &MlpTape, d_x: &mut [f64]) -> MlpTensors<Vec<f64>> {
        let down = self.down.backward(&tape.product, d_x);
        let (mut d_gate, mut d_up) = (down.x.clone(), down.x);
        for i in 0..d_gate.len() {
            d_gate[i] *= tape.up[i] * silu_slope(tape.gate[i]);
            d_up[i] *= silu(tape.gate[i]);
        }
        let gate = self.gate.backward(&tape.normed, &d_gate);
        let up = self.up.backward(&tape.normed, &d_up);
        let mut d_normed = gate.x;
        add(&mut d_normed, &up.x);
        let norm = self.norm.backward(&tape.x, &d_normed);
        add(d_x, &norm.x);
        MlpTensors {
            norm: norm.weight,
            gate: gate.weight,
            up: up.weight,
            down: down.weight,
        }
    }
}
