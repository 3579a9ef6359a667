//! `dla train`: a run from its settings to its last checkpoint.

use std::path::Path;

use dla_core::{Result, file};
use dla_train::metrics::{EvaluationLine, StepLine};
use dla_train::{
    CpuEngine, DeviceEngine, Engine, Outcome, Precision, Run, Settings, Snapshot, Start, Watcher,
};
use serde_json::json;

use crate::args::{self, Global};
use crate::progress::Progress;
use crate::report::{self, Report};
use crate::signals::Graceful;
use crate::{backend, progress, runner};

const STOPPING: &str = "stopping after this step; Ctrl-C again stops at once, without a checkpoint";

/// Trains until all steps are done or the user stops the run.
///
/// # Errors
/// When settings, texts or checkpoint are refused, the run diverges, or a file cannot be written.
pub fn run(args: &args::Train, global: &Global) -> Result<Report> {
    let text = file::read_text("train", &args.config)?;
    let settings = Settings::parse(&args.config.display().to_string(), &text)?;
    let start = match &args.init {
        Some(folder) => Start::Init(folder.clone()),
        None if args.resume => Start::Resume,
        None => Start::Fresh,
    };
    if let Start::Init(folder) = &start {
        runner::open(folder)?;
    }
    let mut run = Run::open(settings, &start)?.keeping(text);
    let snapshot = run.take_snapshot()?;
    let mut engine = engine(&run, snapshot, global)?;
    let mut screen = Screen::new(&run);
    let outcome = run.train(&mut *engine, &mut screen);
    drop(screen);
    Ok(told(&args.config, run.settings().steps, &outcome?))
}

/// What trains: follows `--backend` and `--adapter`.
///
/// # Errors
/// When the adapter or the run is refused.
pub fn engine(run: &Run, snapshot: Snapshot, global: &Global) -> Result<Box<dyn Engine>> {
    let (config, compute) = (run.config().clone(), run.settings().compute);
    if let backend::Engine::Gpu { gpu, or_cpu } = backend::Engine::open(global)? {
        let (gate, options) = (run.gate(), run.adamw());
        // The CPU does not take over what only a device computes.
        let anywhere = compute.precision == Precision::F32;
        let engine = progress::watched("preparing the device", || {
            let config = config.clone();
            DeviceEngine::new(&gpu, config, gate, options, &compute, snapshot.clone())
        });
        match engine {
            Err(error) if or_cpu && anywhere && error.is_unsupported() => {
                report::note(&format!("running on the CPU: {error}"));
            }
            engine => return Ok(Box::new(engine?)),
        }
    }
    let engine = CpuEngine::new(config, run.gate(), run.adamw(), snapshot)?;
    Ok(Box::new(engine))
}

fn told(config: &Path, steps: u64, outcome: &Outcome) -> Report {
    let checkpoint = outcome.checkpoint.display();
    let mut text = format!("step {} of {steps}", outcome.step);
    if let Some(loss) = outcome.loss {
        text += &format!(", loss {loss:.4}");
    }
    if let Some(line) = outcome.evaluation {
        let (loss, accuracy) = (line.evaluation_loss, 100.0 * line.accuracy);
        text += &format!(", held out {loss:.4} ({accuracy:.1}% right)");
    }
    text += &format!(": {checkpoint}");
    let resume = format!("dla train --config {} --resume", config.display());
    if !outcome.finished {
        text += &format!("\nstopped; go on with `{resume}`");
    }
    Report {
        text,
        json: json!({
            "step": outcome.step,
            "finished": outcome.finished,
            "loss": outcome.loss,
            "evaluation": outcome.evaluation,
            "checkpoint": outcome.checkpoint,
            "resume": (!outcome.finished).then_some(resume),
        }),
    }
}

/// What people see of a run, and how they stop it.
struct Screen {
    progress: Progress,
    /// Steps from line to line where there is no bar; 0 for none.
    every: u64,
    steps: u64,
    stop: Graceful,
}

impl Screen {
    /// Shows the steps of `run`; Ctrl-C stops after a step, a second one at once.
    fn new(run: &Run) -> Self {
        let settings = run.settings();
        Self {
            progress: Progress::of_steps("training", run.step(), settings.steps),
            every: settings.every.log,
            steps: settings.steps,
            stop: Graceful::new(STOPPING),
        }
    }
}

impl Watcher for Screen {
    fn step(&mut self, line: &StepLine) {
        self.progress.reach(line.step);
        let (loss, speed) = (line.loss, line.tokens_per_second);
        let beside = format!("loss {loss:.4}, {speed:.0} tokens/s");
        let due = line.step.is_multiple_of(self.every) || line.step == self.steps;
        if !self.progress.has_bar() && self.every > 0 && due {
            let standing = self.progress.standing();
            self.progress.line(&format!("{standing}, {beside}"));
        }
        self.progress.beside(beside);
    }

    fn evaluated(&mut self, line: &EvaluationLine) {
        let (loss, accuracy) = (line.evaluation_loss, 100.0 * line.accuracy);
        let step = line.step;
        let told = format!("step {step}: held out {loss:.4}, {accuracy:.1}% right");
        self.progress.line(&told);
    }

    fn skipped(&mut self, step: u64) {
        let told = format!("note: step {step} was left out: its gradients were not finite");
        self.progress.line(&told);
    }

    fn stops(&self) -> bool {
        self.stop.is_asked()
    }
}
