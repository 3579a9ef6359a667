//! `dla bench train`: the steps of a training run.

use std::time::{Duration, Instant};

use dla_core::Result;
use dla_train::metrics::{EvaluationLine, StepLine};
use dla_train::{Run, Settings, Start, Watcher};
use serde_json::json;

use super::{median, millis, scaled};
use crate::args::{BenchTrain, Global};
use crate::atomic::Scratch;
use crate::report::Report;
use crate::{progress, train};

/// Steps before the first one that counts: pipelines are made, allocations settle.
const WARM_UP: usize = 2;

/// Times the steps of a run, batches drawn and losses read back as `dla train` does. What the run writes is removed.
///
/// # Errors
/// When settings, texts or model are refused, or the run diverges.
pub fn run(args: &BenchTrain, global: &Global) -> Result<Report> {
    let mut settings = Settings::open(&args.config)?;
    let scratch = Scratch::new()?;
    settings.output = scratch.path();
    settings.steps = (WARM_UP + args.runs) as u64;
    settings.every.evaluate = settings.steps + 1;
    let start = args.init.clone().map_or(Start::Fresh, Start::Init);
    let mut run = Run::open(settings, &start)?;
    let snapshot = run.take_snapshot()?;
    let parameters: usize = snapshot.tensors.iter().map(Vec::len).sum();
    let mut engine = train::engine(&run, snapshot, global)?;
    let mut clock = Clock::new();
    progress::watched("timing steps", || run.train(&mut *engine, &mut clock))?;
    let batch = run.settings().batch;
    Ok(clock.told(args, batch.sequences * batch.accumulation, parameters))
}

/// Takes the time of every step.
struct Clock {
    last: Instant,
    steps: Vec<Duration>,
    tokens_per_second: Vec<f64>,
}

impl Clock {
    fn new() -> Self {
        Self {
            last: Instant::now(),
            steps: Vec::new(),
            tokens_per_second: Vec::new(),
        }
    }

    fn told(mut self, args: &BenchTrain, sequences: usize, parameters: usize) -> Report {
        let runs = self.steps.len().saturating_sub(WARM_UP);
        let step = median(self.steps.split_off(self.steps.len() - runs));
        let mut speeds = self
            .tokens_per_second
            .split_off(self.tokens_per_second.len() - runs);
        speeds.sort_by(f64::total_cmp);
        let speed = speeds.get(runs / 2).copied().unwrap_or_default();
        // Two products forward, four back, for every weight and token.
        let flop = 6.0 * parameters as f64 * speed;
        let text = format!(
            "{}: {} parameters, {sequences} sequences a step\n\
             {:.1} ms a step, {speed:.0} tokens/s, {} in the weights\n",
            args.config.display(),
            scaled(parameters as f64, ""),
            millis(step),
            scaled(flop, "FLOP/s"),
        );
        let json = json!({
            "config": args.config, "parameters": parameters, "sequences": sequences, "runs": runs,
            "step_ms": millis(step), "tokens_per_s": speed, "weight_flop_per_s": flop,
        });
        Report { text, json }
    }
}

impl Watcher for Clock {
    fn step(&mut self, line: &StepLine) {
        let now = Instant::now();
        self.steps.push(now - self.last);
        self.last = now;
        self.tokens_per_second.push(line.tokens_per_second);
    }

    fn evaluated(&mut self, _: &EvaluationLine) {}

    fn skipped(&mut self, _: u64) {}

    fn stops(&self) -> bool {
        false
    }
}
