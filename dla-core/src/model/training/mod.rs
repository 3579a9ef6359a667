//! A training step in plain Rust: the yardstick of the passes that train on a device.
//!
//! The forward pass keeps what the backward pass needs (a *tape* for each layer), then the gradients
//! go back through the blocks in the reverse order. Everything inside is in double precision, so that
//! finite differences hold every gradient; a sequence starts from nothing, and many are taken side by
//! side. What is trained is the tree of tensors that [`ModelTensors`] states.

pub mod adamw;
mod attention;
mod block;
mod convolved;
mod gated_delta;
mod mamba2;
mod mixer_gradients;
mod network;
mod operator;
pub mod rate;
#[cfg(test)]
mod tests;
pub mod theta;
mod watch;

pub use adamw::{AdamW, AdamWOptions};
pub use rate::LearningRate;
pub use theta::Theta;
pub use watch::{LayerCall, watch};

use self::network::Network;
use super::config::ModelConfig;
use super::tensors::ModelTensors;
use super::weights::TensorName;
use crate::decisions::{Decisions, Trace};
use crate::dla::gate::Gate;
use crate::dla::recurrent;
use crate::error::{Error, Result};
use crate::nn::loss;
use crate::real::Real;

/// Sequences of one length and what follows each of their tokens.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// Sequences, B.
    pub sequences: usize,
    /// Token ids `[sequences, tokens]`.
    pub ids: &'a [u32],
    /// The id that each token is to predict, or [`loss::IGNORED`], `[sequences, tokens]`.
    pub targets: &'a [u32],
    /// Decisions to follow instead of the schedule's own: those of each layer,
    /// `[sequences, tokens, heads]`.
    pub replay: Option<&'a [Decisions]>,
}

/// What a step learns of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Step<R> {
    /// The mean cross-entropy over the targets that count, in nats.
    pub loss: f64,
    /// How many counted.
    pub counted: usize,
    /// The gradient of the loss by every tensor.
    pub gradients: ModelTensors<Vec<R>>,
    /// What each layer measured and decided, `[sequences, tokens, heads]`; empty for softmax attention.
    pub traces: Vec<Trace>,
}

/// The loss of a model on a batch, and its gradient by every tensor.
///
/// Gradients flow through the slot maps, decisions held fixed; τ learns through `gate`, whose default
/// is straight-through (`docs/algorithm.md` §11). `tensors` are widened to f64 first; the gradients
/// are rounded to `R` at the end.
///
/// # Errors
/// For tensors of another model or shape, ids or targets that do not fit, and whatever the operator
/// refuses, a θ or decisions among it.
pub fn loss_and_gradients<R: Real>(
    config: &ModelConfig,
    tensors: &ModelTensors<Vec<R>>,
    batch: &Batch<'_>,
    gate: &Gate,
) -> Result<Step<R>> {
    gate.check()?;
    batch.check(config)?;
    check_tensors(config, tensors)?;
    let network = Network::new(config, tensors.each_ref().map(|values| widen(values)));
    let run = |layer: usize, call: &operator::Call<'_>| {
        let mut inputs = *call.inputs;
        inputs.replay = batch.replay.map(|layers| &layers[layer]);
        recurrent::forward_gated(call.dims, call.config, &inputs, None, gate)
    };
    let (logits, tape) = network.forward(batch, &run)?;
    let loss = loss::cross_entropy(&logits, config.vocabulary, batch.targets)?;
    let gradients = network.backward(batch, &tape, &loss.d_logits, gate)?;
    Ok(Step {
        loss: loss.value,
        counted: loss.counted,
        gradients: gradients.map(|values| values.into_iter().map(R::from_f64).collect()),
        traces: tape.into_traces(),
    })
}

fn widen<R: Real>(values: &[R]) -> Vec<f64> {
    values.iter().map(|x| x.to_f64()).collect()
}

impl Batch<'_> {
    /// Tokens of a sequence.
    pub fn tokens(&self) -> usize {
        self.ids.len() / self.sequences
    }

    /// Refuses arrays that are not `sequences` rows of one length, and decisions that are not one
    /// set for each layer.
    fn check(&self, config: &ModelConfig) -> Result<()> {
        let refuse = |argument, expected: String, got| {
            Err(Error::input("training", argument, expected, got))
        };
        if self.sequences == 0 || !self.ids.len().is_multiple_of(self.sequences) {
            let expected = format!("{} rows of one length", self.sequences.max(1));
            return refuse("ids", expected, self.ids.len());
        }
        if self.targets.len() != self.ids.len() {
            return refuse(
                "targets",
                format!("{} ids", self.ids.len()),
                self.targets.len(),
            );
        }
        match self.replay {
            Some(layers) if layers.len() != config.layers => {
                let expected = format!("decisions of {} layers", config.layers);
                refuse("replay", expected, layers.len())
            }
            _ => Ok(()),
        }
    }
}

/// Refuses tensors that are not those of a model of these settings.
fn check_tensors<R>(config: &ModelConfig, tensors: &ModelTensors<Vec<R>>) -> Result<()> {
    let names = ModelTensors::<TensorName>::names(config)?;
    for (name, values) in names.zip(tensors.each_ref())? {
        if values.len() != name.len() {
            let argument = format!("tensor {}", name.name);
            let expected = format!("the {} values of {:?}", name.len(), name.shape);
            return Err(Error::input("training", argument, expected, values.len()));
        }
    }
    Ok(())
}
