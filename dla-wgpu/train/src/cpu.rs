//! Training on the CPU: the reference's step in double precision, and its optimiser.

use dla_core::dla::gate::{Gate, GateMode};
use dla_core::model::training::adamw::global_norm;
use dla_core::model::training::{AdamW, AdamWOptions, loss_and_gradients};
use dla_core::model::{ModelConfig, ModelTensors, TensorName, Weights};
use dla_core::{Error, Model, Result};

use crate::batch::Batch;
use crate::engine::{Engine, Pace, Scores, Snapshot, StepReport, counted};
use crate::scores::Reader;

/// A model in training on the CPU.
#[derive(Debug)]
pub struct CpuEngine {
    config: ModelConfig,
    gate: GateMode,
    options: AdamWOptions,
    tensors: ModelTensors<Vec<f32>>,
    optimiser: AdamW,
    /// The model of these tensors, once it has been asked for.
    model: Option<Model>,
}

impl CpuEngine {
    /// Trains the model of `snapshot`; τ learns through `gate`.
    ///
    /// # Errors
    /// For settings outside their ranges and a snapshot of another model.
    pub fn new(
        config: ModelConfig,
        gate: GateMode,
        options: AdamWOptions,
        snapshot: Snapshot,
    ) -> Result<Self> {
        let (tensors, optimiser) = restored(&config, options, snapshot)?;
        Ok(Self {
            config,
            gate,
            options,
            tensors,
            optimiser,
            model: None,
        })
    }

    /// The gradient of the mean loss over all targets, and that loss.
    fn gradients(&self, batches: &[Batch], theta: f64) -> Result<(f64, ModelTensors<Vec<f32>>)> {
        let gate = Gate {
            mode: self.gate,
            theta,
        };
        let all = counted(batches)? as f64;
        let (mut loss, mut sum) = (0.0, None);
        for batch in batches.iter().filter(|batch| batch.counted() > 0) {
            let step = loss_and_gradients(&self.config, &self.tensors, &batch.borrow(), &gate)?;
            let share = step.counted as f64 / all;
            loss += share * step.loss;
            sum = Some(match sum {
                None => step.gradients.map(|values| scaled(values, share as f32)),
                Some(sum) => added(sum, step.gradients, share as f32)?,
            });
        }
        sum.map(|gradients| (loss, gradients))
            .ok_or_else(|| Error::input("train", "batches", "at least one", "none"))
    }

    /// The first tensor with more values that are not finite than `before`.
    fn lost(&self, before: &ModelTensors<usize>) -> Result<Option<String>> {
        let names = ModelTensors::<TensorName>::names(&self.config)?;
        let counts = before.each_ref().zip(not_finite(&self.tensors))?;
        let mut pairs = names.iter().zip(counts);
        let lost = pairs.find(|(_, (before, after))| after > before);
        Ok(lost.map(|(name, _)| name.name.clone()))
    }
}

/// The operator refuses arrays that a model makes only of weights which have gone astray: there is no loss then.
fn is_astray(error: &Error) -> bool {
    error.op() == "op" && error.is_input() && ["g", "beta", "lambda"].contains(&error.argument())
}

/// Values of each tensor that are not finite; τ = +∞ is a threshold that nothing passes.
fn not_finite(tensors: &ModelTensors<Vec<f32>>) -> ModelTensors<usize> {
    let count = |values: &Vec<f32>| values.iter().filter(|x| !x.is_finite()).count();
    tensors.each_ref().map(count)
}

fn scaled(mut values: Vec<f32>, share: f32) -> Vec<f32> {
    if share != 1.0 {
        values.iter_mut().for_each(|x| *x *= share);
    }
    values
}

fn added(
    mut sum: ModelTensors<Vec<f32>>,
    more: ModelTensors<Vec<f32>>,
    share: f32,
) -> Result<ModelTensors<Vec<f32>>> {
    for (sum, more) in sum.each_mut().zip(more)? {
        sum.iter_mut()
            .zip(more)
            .for_each(|(sum, x)| *sum += share * x);
    }
    Ok(sum)
}

fn restored(
    config: &ModelConfig,
    options: AdamWOptions,
    snapshot: Snapshot,
) -> Result<(ModelTensors<Vec<f32>>, AdamW)> {
    let means = [snapshot.mean, snapshot.square];
    let optimiser = AdamW::restore(config, options, snapshot.moves, means)?;
    // Says which tensor does not fit.
    snapshot.tensors.save(config, &mut std::io::sink())?;
    Ok((snapshot.tensors, optimiser))
}

impl Engine for CpuEngine {
    fn config(&self) -> &ModelConfig {
        &self.config
    }

    fn step(&mut self, batches: &[Batch], pace: Pace) -> Result<StepReport> {
        let (loss, gradients) = match self.gradients(batches, pace.theta) {
            Err(error) if is_astray(&error) => {
                return Ok(StepReport {
                    loss: f64::NAN,
                    counted: counted(batches)?,
                    gradient_norm: f64::NAN,
                    skipped: true,
                    loss_scale: None,
                    lost: None,
                });
            }
            gradients => gradients?,
        };
        let gradient_norm = global_norm(&gradients);
        let skipped = !loss.is_finite() || !gradient_norm.is_finite();
        let mut lost = None;
        if !skipped {
            self.model = None;
            let before = not_finite(&self.tensors);
            let Pace { rate, .. } = pace;
            self.optimiser.update(&mut self.tensors, &gradients, rate)?;
            lost = self.lost(&before)?;
        }
        Ok(StepReport {
            loss,
            counted: counted(batches)?,
            gradient_norm,
            skipped,
            loss_scale: None,
            lost,
        })
    }

    fn evaluate(&mut self, batch: &Batch) -> Result<Scores> {
        let model = match self.model.take() {
            Some(model) => model,
            None => Model::build(&self.config, &mut Given(self.tensors.clone().into_iter()))?,
        };
        let mut scores = Scores::default();
        for i in 0..batch.sequences {
            let (ids, targets) = batch.sequence(i);
            scores.extend(model.score(ids, targets)?);
        }
        self.model = Some(model);
        Ok(scores)
    }

    fn export(&mut self) -> Result<Snapshot> {
        let [mean, square] = self.optimiser.means();
        Ok(Snapshot {
            tensors: self.tensors.clone(),
            moves: self.optimiser.step(),
            mean: mean.clone(),
            square: square.clone(),
            loss_scale: None,
        })
    }

    fn import(&mut self, snapshot: Snapshot) -> Result<()> {
        let (tensors, optimiser) = restored(&self.config, self.options, snapshot)?;
        (self.tensors, self.optimiser, self.model) = (tensors, optimiser, None);
        Ok(())
    }
}

/// Tensors in the order in which a model asks for them.
struct Given(std::vec::IntoIter<Vec<f32>>);

impl Weights for Given {
    type Tensor = Vec<f32>;

    fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let next = self.0.next();
        next.filter(|values| values.len() == shape.iter().product::<usize>())
            .ok_or_else(|| {
                let argument = format!("tensor {name}");
                Error::input("train", argument, format!("shape {shape:?}"), "another")
            })
    }
}
