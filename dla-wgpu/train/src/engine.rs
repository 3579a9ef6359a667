//! What learns: one face for every machine.

use dla_core::model::{ModelConfig, ModelTensors};
use dla_core::{Error, Result};

use crate::batch::Batch;

/// A model in training on some machine.
pub trait Engine {
    /// The model's settings.
    fn config(&self) -> &ModelConfig;

    /// One step of AdamW along the gradient of the mean loss over all targets of `batches`, which are taken one
    /// after the other.
    ///
    /// A loss or a gradient that is not finite moves nothing, and the report says so; it also tells of a tensor
    /// that the step has taken out of the finite numbers.
    ///
    /// # Errors
    /// For batches that do not fit the model, a θ that is not above 0, and a machine that fails.
    fn step(&mut self, batches: &[Batch], pace: Pace) -> Result<StepReport>;

    /// How well every target of `batch` is predicted; nothing moves.
    ///
    /// # Errors
    /// For a batch that does not fit the model, and a machine that fails.
    fn evaluate(&mut self, batch: &Batch) -> Result<Scores>;

    /// What a checkpoint holds.
    ///
    /// # Errors
    /// For a machine that fails.
    fn export(&mut self) -> Result<Snapshot>;

    /// Goes on from `snapshot`.
    ///
    /// # Errors
    /// For a snapshot of another model, and a machine that fails.
    fn import(&mut self, snapshot: Snapshot) -> Result<()>;
}

/// What changes from step to step by a schedule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// The learning rate.
    pub rate: f64,
    /// θ of the gate that τ learns through, above 0.
    pub theta: f64,
}

/// How a step went.
#[derive(Clone, Debug, PartialEq)]
pub struct StepReport {
    /// The mean cross-entropy over the targets that count, in nats, before the step.
    pub loss: f64,
    /// How many counted.
    pub counted: usize,
    /// The norm of all gradients together, before clipping.
    pub gradient_norm: f64,
    /// The loss or the gradient was not finite: nothing has moved.
    pub skipped: bool,
    /// The first tensor that had finite values before the step which are not finite any more: the model is lost.
    pub lost: Option<String>,
}

/// How well targets are predicted, `[sequences, tokens]`; 0 and false where a target does not count.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scores {
    /// −ln of the target's probability.
    pub losses: Vec<f32>,
    /// The target had the largest logit.
    pub hits: Vec<bool>,
}

/// A model and its optimiser between two steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// The model's tensors.
    pub tensors: ModelTensors<Vec<f32>>,
    /// Steps of the optimiser that have moved something.
    pub moves: u64,
    /// The means of gradients.
    pub mean: ModelTensors<Vec<f32>>,
    /// The means of their squares.
    pub square: ModelTensors<Vec<f32>>,
}

impl Snapshot {
    /// A model before the optimiser's first step.
    pub fn untrained(tensors: ModelTensors<Vec<f32>>) -> Self {
        let zeros = tensors.each_ref().map(|values| vec![0.0; values.len()]);
        Self {
            tensors,
            moves: 0,
            mean: zeros.clone(),
            square: zeros,
        }
    }
}

/// The targets of `batches` that count.
///
/// # Errors
/// When there are none, and nothing could be learned.
pub fn counted(batches: &[Batch]) -> Result<usize> {
    match batches.iter().map(Batch::counted).sum() {
        0 => Err(Error::input(
            "train",
            "targets",
            "at least one that counts",
            "none",
        )),
        counted => Ok(counted),
    }
}
