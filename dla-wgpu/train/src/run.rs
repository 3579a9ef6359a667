//! A run: settings, data and an engine tied together, step by step.

use std::path::PathBuf;
use std::time::Instant;

use dla_core::dla::gate::GateMode;
use dla_core::model::training::AdamWOptions;
use dla_core::model::{Initial, ModelConfig, ModelTensors, SpecialIds};
use dla_core::{Error, Result};

use crate::batch::Batch;
use crate::engine::{Engine, Pace, Snapshot, StepReport};
use crate::metrics::{EvaluationLine, Line, Metrics, StepLine};
use crate::scores::Totals;
use crate::settings::{Precision, Settings};
use crate::store::{State, Store, read_model};
use crate::task::{Split, Task};
use crate::{atomic, curve, resume};

/// Steps that may be left out in a row before a run counts as diverged.
const MOST_SKIPPED: u32 = 10;
/// A scale of the loss that follows the steps may fall so far: below it, it would lose small gradients, not keep them.
const LEAST_SCALE: f32 = 1.0;

/// What a run starts from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// New weights.
    Fresh,
    /// The weights of a model directory.
    Init(PathBuf),
    /// The newest checkpoint in the output folder.
    Resume,
}

/// Who looks on while a run is under way.
pub trait Watcher {
    /// A step was done.
    fn step(&mut self, line: &StepLine);

    /// What is held out was evaluated.
    fn evaluated(&mut self, line: &EvaluationLine);

    /// A step was left out, for its gradients were not finite.
    fn skipped(&mut self, step: u64);

    /// True to end the run after this step, with a checkpoint.
    fn stops(&self) -> bool;
}

/// A run, ready for an engine.
pub struct Run {
    settings: Settings,
    task: Box<dyn Task>,
    store: Store,
    config: ModelConfig,
    gate: GateMode,
    state: State,
    /// The step of the newest checkpoint, if there is one.
    saved: Option<u64>,
    snapshot: Option<Snapshot>,
    /// The settings file, to be kept in the folder.
    text: Option<String>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Steps done.
    pub step: u64,
    /// All steps are done.
    pub finished: bool,
    /// The last step's loss, if there was one.
    pub loss: Option<f64>,
    /// The last evaluation, if there was one.
    pub evaluation: Option<EvaluationLine>,
    /// The last checkpoint.
    pub checkpoint: PathBuf,
}

impl Run {
    /// Reads what the settings name.
    ///
    /// # Errors
    /// For settings that do not fit each other or the checkpoint to start from, texts that cannot be read,
    /// and an output folder that cannot be written or holds another run already.
    pub fn open(settings: Settings, start: &Start) -> Result<Self> {
        atomic::check_run_folder(&settings.output)?;
        let store = Store::open(
            &settings.output,
            settings.every.keep,
            settings.data.tokenizer(),
        );
        let (task, mut config, snapshot, saved) = match start {
            Start::Resume => {
                let (config, state, snapshot) = store.load()?;
                let task = settings.data.task(Some(config.vocabulary))?;
                (task, config, snapshot, Some(state))
            }
            Start::Init(folder) => {
                let (config, tensors) = read_model(folder)?;
                let task = settings.data.task(Some(config.vocabulary))?;
                check_init(&settings, &*task, &config)?;
                (task, config, Snapshot::untrained(tensors), None)
            }
            Start::Fresh => {
                let (task, config, tensors) = fresh(&settings)?;
                (task, config, Snapshot::untrained(tensors), None)
            }
        };
        // The tokenizer's folder names special tokens where the model does not.
        if let Some(folder) = settings.data.tokenizer() {
            let named = SpecialIds::open(folder, config.vocabulary)?;
            config.special = std::mem::take(&mut config.special).or(named);
        }
        let state = State {
            step: 0,
            moves: 0,
            seed: settings.seed,
            settings: settings.hash()?,
            options: Some(settings.options()?),
            data: task.fingerprint(),
            loss_scale: None,
        };
        let newest = saved.as_ref().map(|state| state.step);
        let state = match saved {
            Some(saved) => resume::same_run(state, saved)?,
            None => state,
        };
        store.check(newest)?;
        let gate = settings.model.as_ref().map(|model| model.gate());
        Ok(Self {
            gate: gate.transpose()?.unwrap_or_default(),
            snapshot: Some(snapshot),
            settings,
            task,
            store,
            config,
            state,
            saved: newest,
            text: None,
        })
    }

    /// The same run, which keeps `text`, the file that its settings were read from, in its folder.
    #[must_use]
    pub fn keeping(mut self, text: String) -> Self {
        self.text = Some(text);
        self
    }

    /// The model's settings.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// How τ learns.
    pub fn gate(&self) -> GateMode {
        self.gate
    }

    /// The optimiser's options.
    pub fn adamw(&self) -> AdamWOptions {
        self.settings.adamw()
    }

    /// The run's settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Steps done before.
    pub fn step(&self) -> u64 {
        self.state.step
    }

    /// The model and its optimiser, for the engine; given once.
    ///
    /// # Errors
    /// When it has been given already.
    pub fn take_snapshot(&mut self) -> Result<Snapshot> {
        let taken = || Error::input("train", "snapshot", "to be taken once", "twice");
        self.snapshot.take().ok_or_else(taken)
    }

    /// Trains `engine` until all steps are done or `watcher` stops it. The output folder is made here, so that what is
    /// refused before leaves none.
    ///
    /// # Errors
    /// When another process trains into the folder, for an engine of another precision than the settings', data that
    /// does not fit the model, a loss or a tensor that is not finite, an engine that fails, and files that cannot be
    /// written. The last checkpoint stays.
    pub fn train(&mut self, engine: &mut dyn Engine, watcher: &mut dyn Watcher) -> Result<Outcome> {
        self.check_precision(engine.precision())?;
        let _claim = self.store.claim(self.saved)?;
        if let Some(text) = &self.text {
            self.store.keep_settings(text)?;
        }
        let mut metrics = Metrics::open(self.store.folder(), self.state.step)?;
        let (mut last, mut evaluation, mut skipped) = (None, None, 0);
        while self.state.step < self.settings.steps {
            let line = self.advance(engine, &mut skipped)?;
            if line.gradient_norm.is_none() {
                watcher.skipped(line.step);
            }
            watcher.step(&line);
            last = Some(line.loss);
            let every = self.settings.every;
            if self.is_due(every.log) {
                metrics.push(Line::Step(line))?;
            }
            if self.is_due(every.evaluate) {
                let line = self.evaluate(engine)?;
                metrics.push(Line::Evaluation(line))?;
                watcher.evaluated(&line);
                evaluation = Some(line);
                self.draw(&metrics)?;
            }
            if watcher.stops() {
                break;
            }
            if self.is_due(every.checkpoint) {
                self.save(engine)?;
            }
        }
        self.draw(&metrics)?;
        Ok(Outcome {
            step: self.state.step,
            finished: self.state.step >= self.settings.steps,
            loss: last,
            evaluation,
            checkpoint: self.save(engine)?,
        })
    }

    /// Refuses an engine that computes in something else than the settings say.
    fn check_precision(&self, precision: Precision) -> Result<()> {
        let wanted = self.settings.compute.precision;
        if precision == wanted {
            return Ok(());
        }
        let (expected, got) = (precision.name(), wanted.name());
        let error = Error::unsupported("train", "compute.precision", expected, got);
        Err(match wanted {
            Precision::F16 => error.advise("f16 compute needs --backend gpu"),
            Precision::F32 => error,
        })
    }

    /// One step.
    fn advance(&mut self, engine: &mut dyn Engine, skipped: &mut u32) -> Result<StepLine> {
        let start = Instant::now();
        let batches = self.batches()?;
        let step = self.state.step;
        let pace = Pace {
            rate: self.settings.rate().at(step),
            theta: self.settings.theta().at(step),
        };
        let report = engine.step(&batches, pace)?;
        self.check(&report, skipped)?;
        self.state.step += 1;
        self.state.moves += u64::from(!report.skipped);
        let tokens: usize = batches.iter().map(|batch| batch.ids.len()).sum();
        Ok(StepLine {
            step: self.state.step,
            loss: report.loss,
            rate: pace.rate,
            gradient_norm: (!report.skipped).then_some(report.gradient_norm),
            loss_scale: report.loss_scale,
            skipped: report
                .loss_scale
                .map(|_| self.state.step - self.state.moves),
            tokens_per_second: tokens as f64 / start.elapsed().as_secs_f64(),
        })
    }

    /// The batches of the next step: a pure function of its number.
    fn batches(&self) -> Result<Vec<Batch>> {
        let sizes = self.settings.batch;
        let first = self.state.step * sizes.accumulation as u64;
        let batch = |i| {
            let number = first + i;
            let seed = self.settings.seed;
            self.task.batch(Split::Train, seed, number, sizes.sequences)
        };
        (0..sizes.accumulation as u64).map(batch).collect()
    }

    /// Refuses to go on where nothing is learned any more.
    fn check(&self, report: &StepReport, skipped: &mut u32) -> Result<()> {
        let diverged = |argument: &str, got: String| {
            let argument = format!("{argument} of step {}", self.state.step + 1);
            let error = Error::diverged("train", argument, "finite numbers", got);
            let path = self.store.folder().display().to_string();
            let advice = format!("the last checkpoint in {path} stays; try a lower rate");
            Err(error.advise(advice))
        };
        *skipped = if report.skipped { *skipped + 1 } else { 0 };
        if !report.loss.is_finite() {
            return diverged("loss", report.loss.to_string());
        }
        if let Some(tensor) = &report.lost {
            return diverged(tensor, "values that are not finite".into());
        }
        if self.settings.compute.is_dynamic() {
            return match report.loss_scale {
                Some(scale) if report.skipped && scale <= LEAST_SCALE => {
                    let got = format!("others at a loss scale of {scale}");
                    diverged("gradient norm", got)
                }
                _ => Ok(()),
            };
        }
        if *skipped >= MOST_SKIPPED {
            let got = format!("{MOST_SKIPPED} steps in a row without one");
            return diverged("gradient norm", got);
        }
        Ok(())
    }

    /// How well what is held out is predicted.
    fn evaluate(&self, engine: &mut dyn Engine) -> Result<EvaluationLine> {
        let mut totals = Totals::default();
        for number in 0..self.settings.every.evaluation_batches {
            let sequences = self.settings.batch.sequences;
            let seed = self.settings.seed;
            let batch = self.task.batch(Split::Held, seed, number, sequences)?;
            totals.add(engine.evaluate(&batch)?.totals(&batch.targets));
        }
        let argument = format!("evaluation after step {}", self.state.step);
        let totals = totals.sound("train", argument)?;
        Ok(EvaluationLine::of(self.state.step, &totals))
    }

    fn is_due(&self, every: u64) -> bool {
        let step = self.state.step;
        every > 0 && (step.is_multiple_of(every) || step == self.settings.steps)
    }

    fn draw(&self, metrics: &Metrics) -> Result<()> {
        let path = self.store.folder().join("loss.svg");
        atomic::write(&path, curve::svg(metrics.lines()).as_bytes())
    }

    fn save(&mut self, engine: &mut dyn Engine) -> Result<PathBuf> {
        let snapshot = engine.export()?;
        self.state.loss_scale = snapshot.loss_scale;
        self.store.save(&self.config, &self.state, &snapshot)?;
        self.saved = Some(self.state.step);
        Ok(self.store.checkpoint(self.state.step))
    }
}

/// The task, the model and its initial weights.
type Fresh = (Box<dyn Task>, ModelConfig, ModelTensors<Vec<f32>>);

fn fresh(settings: &Settings) -> Result<Fresh> {
    let Some(model) = &settings.model else {
        let expected = "a section, or --init with a checkpoint";
        return Err(Error::input("train", "model", expected, "neither"));
    };
    let task = settings.data.task(model.vocabulary)?;
    let config = model.config(task.vocabulary())?;
    let mut initial = Initial::new(&config, settings.seed, model.tau())?;
    let tensors = ModelTensors::load(&config, &mut initial)?;
    Ok((task, config, tensors))
}

/// Refuses a section `model` that is not the checkpoint's, and data beyond its vocabulary.
fn check_init(settings: &Settings, task: &dyn Task, config: &ModelConfig) -> Result<()> {
    let ids = task.vocabulary();
    if ids > config.vocabulary {
        let expected = format!("a vocabulary of at least {ids} for the data");
        return Err(Error::input("train", "--init", expected, config.vocabulary));
    }
    let Some(model) = &settings.model else {
        return Ok(());
    };
    // The section says nothing of special tokens.
    let special = config.special.clone();
    let section = ModelConfig {
        special,
        ..model.config(config.vocabulary)?
    };
    match section == *config {
        true => Ok(()),
        false => {
            let expected = "the checkpoint's settings, or no section";
            Err(Error::input("train", "model", expected, "others"))
        }
    }
}
