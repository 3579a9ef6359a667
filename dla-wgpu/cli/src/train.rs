//! `dla train`: a run from its settings to its last checkpoint.

use std::io::{self, IsTerminal};
use std::path::Path;

use dla_core::{Result, file};
use dla_train::metrics::{EvaluationLine, StepLine};
use dla_train::{
    CpuEngine, DeviceEngine, Engine, Outcome, Precision, Run, Settings, Snapshot, Start, Watcher,
};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use crate::args::{self, Global};
use crate::report::{self, Report};
use crate::signals::Graceful;
use crate::{backend, progress};

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
    let mut run = Run::open(settings, &start)?.keeping(text);
    let snapshot = run.take_snapshot()?;
    let mut engine = engine(&run, snapshot, global)?;
    let mut screen = Screen::new(run.step(), run.settings().steps);
    let outcome = run.train(&mut *engine, &mut screen);
    screen.bar.finish_and_clear();
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
    bar: ProgressBar,
    stop: Graceful,
}

impl Screen {
    /// Shows steps from `step` on; Ctrl-C stops after a step, a second one at once.
    fn new(step: u64, steps: u64) -> Self {
        let bar = match io::stderr().is_terminal() {
            true => ProgressBar::new(steps).with_position(step),
            false => ProgressBar::hidden(),
        };
        // Words that cannot be shown leave the bar as it is.
        if let Ok(style) = ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg} {eta} left") {
            bar.set_style(style);
        }
        Self {
            bar,
            stop: Graceful::new(STOPPING),
        }
    }
}

impl Watcher for Screen {
    fn step(&mut self, line: &StepLine) {
        self.bar.set_position(line.step);
        let (loss, speed) = (line.loss, line.tokens_per_second);
        self.bar
            .set_message(format!("loss {loss:.4}, {speed:.0} tokens/s"));
    }

    fn evaluated(&mut self, line: &EvaluationLine) {
        let (loss, accuracy) = (line.evaluation_loss, 100.0 * line.accuracy);
        let step = line.step;
        self.bar.println(format!(
            "step {step}: held out {loss:.4}, {accuracy:.1}% right"
        ));
    }

    fn skipped(&mut self, step: u64) {
        let line = format!("step {step} was left out: its gradients were not finite");
        self.bar.suspend(|| report::note(&line));
    }

    fn stops(&self) -> bool {
        self.stop.is_asked()
    }
}
