//! A tiny run on the CPU, for tests of whole runs.

use std::fs;
use std::path::Path;

use dla_core::{Error, Result};
use dla_train::metrics::{EvaluationLine, StepLine};
use dla_train::{
    Batch, CpuEngine, Engine, Outcome, Pace, Precision, Run, Scores, Settings, Snapshot, Start,
    StepReport, Watcher,
};

/// Looks on, and stops the run after a step.
#[derive(Default)]
pub(crate) struct Looker {
    /// The step to stop after.
    pub(crate) stop_after: Option<u64>,
    /// Steps that were seen.
    pub(crate) steps: Vec<StepLine>,
    /// Those that were left out.
    pub(crate) skipped: Vec<u64>,
}

impl Watcher for Looker {
    fn step(&mut self, line: &StepLine) {
        self.steps.push(*line);
    }

    fn evaluated(&mut self, _: &EvaluationLine) {}

    fn skipped(&mut self, step: u64) {
        self.skipped.push(step);
    }

    fn stops(&self) -> bool {
        let done = self.steps.last().map(|line| line.step);
        done.is_some() && done >= self.stop_after && self.stop_after.is_some()
    }
}

/// A small model.
pub(crate) const MODEL: &str = r#"
[model]
family = "gated_deltanet"
hidden = 16
layers = 1
heads = 2
head_dim = 8
intermediate = 16
[model.dla]
capacity = 3
tau = 1.2
"#;

/// The settings of a run on a folder of text.
pub(crate) fn settings(folder: &Path, steps: u64, more: &str) -> Settings {
    let text = folder.join("text.txt");
    if !text.exists() {
        fs::write(
            &text,
            "The quick brown fox jumps over the lazy dog. ".repeat(40),
        )
        .expect("a text");
    }
    let text = format!(
        "seed = 3\nsteps = {steps}\noutput = {:?}\n[data]\ntask = \"text\"\nlength = 24\nfiles = [{text:?}]\n\
         [batch]\nsequences = 3\naccumulation = 2\n[optimiser]\nrate = 1e-2\nwarmup = {}\n\
         [every]\nlog = 1\nevaluate = 20\nevaluation_batches = 1\ncheckpoint = 5\n{more}",
        folder.join("out"),
        steps.min(5)
    );
    Settings::parse("settings", &text).expect("valid settings")
}

/// Trains on the CPU.
pub(crate) fn train(settings: &Settings, start: &Start, looker: &mut Looker) -> Result<Outcome> {
    let mut run = Run::open(settings.clone(), start)?;
    let snapshot = run.take_snapshot()?;
    let config = run.config().clone();
    let mut engine = CpuEngine::new(config, run.gate(), run.adamw(), snapshot)?;
    run.train(&mut engine, looker)
}

/// An engine whose steps go wrong.
struct Broken(CpuEngine, StepReport);

impl Engine for Broken {
    fn config(&self) -> &dla_core::model::ModelConfig {
        self.0.config()
    }

    fn precision(&self) -> Precision {
        match self.1.loss_scale {
            Some(_) => Precision::F16,
            None => Precision::F32,
        }
    }

    fn step(&mut self, _: &[Batch], _: Pace) -> Result<StepReport> {
        Ok(self.1.clone())
    }

    fn evaluate(&mut self, batch: &Batch) -> Result<Scores> {
        self.0.evaluate(batch)
    }

    fn export(&mut self) -> Result<Snapshot> {
        self.0.export()
    }

    fn import(&mut self, snapshot: Snapshot) -> Result<()> {
        self.0.import(snapshot)
    }
}

/// A run whose every step is `report`: how it ends, and what was seen.
pub(crate) fn broken(report: StepReport, more: &str) -> (Error, Looker) {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = settings(folder.path(), 50, more);
    let mut run = Run::open(settings, &Start::Fresh).expect("a run");
    let snapshot = run.take_snapshot().expect("the first time");
    let engine = CpuEngine::new(run.config().clone(), run.gate(), run.adamw(), snapshot);
    let mut looker = Looker::default();
    let mut engine = Broken(engine.expect("an engine"), report);
    let error = run
        .train(&mut engine, &mut looker)
        .expect_err("nothing is learned");
    (error, looker)
}
