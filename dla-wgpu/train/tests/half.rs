//! Whole runs in f16: the scale of their loss, and where they are refused.

mod common;

use common::{Looker, MODEL, broken, settings, train};
use dla_core::Result;
use dla_train::metrics::{Line, read};
use dla_train::{
    Batch, CpuEngine, Engine, LossScale, Pace, Precision, Run, Scores, Snapshot, Start, StepReport,
};

/// The model, computed in f16.
fn half(loss_scale: &str) -> String {
    format!("{MODEL}[compute]\nprecision = \"f16\"\nloss_scale = {loss_scale}\n")
}

#[test]
fn a_scale_that_falls_below_one_ends_the_run() {
    let report = |scale| StepReport {
        loss: 1.0,
        counted: 9,
        gradient_norm: f64::INFINITY,
        skipped: true,
        loss_scale: Some(scale),
        lost: None,
    };
    let (error, looker) = broken(report(1.0), &half("\"dynamic\""));
    assert!(error.is_diverged(), "{error}");
    assert!(
        error.to_string().contains("at a loss scale of 1"),
        "{error}"
    );
    assert!(looker.skipped.is_empty(), "at once");
    // A fixed scale does not fall, so steps are counted as they are in f32.
    let (error, looker) = broken(report(1.0), &half("1.0"));
    assert!(error.argument().starts_with("gradient norm"), "{error}");
    assert_eq!(looker.skipped, (1..10).collect::<Vec<_>>());
}

/// An engine as if in f16, whose scale halves.
struct Halving(CpuEngine, LossScale);

impl Engine for Halving {
    fn config(&self) -> &dla_core::model::ModelConfig {
        self.0.config()
    }

    fn precision(&self) -> Precision {
        Precision::F16
    }

    fn step(&mut self, batches: &[Batch], pace: Pace) -> Result<StepReport> {
        let before = self.1;
        self.1 = before.after(true);
        Ok(StepReport {
            skipped: true,
            loss_scale: Some(before.scale),
            ..self.0.step(batches, pace)?
        })
    }

    fn evaluate(&mut self, batch: &Batch) -> Result<Scores> {
        self.0.evaluate(batch)
    }

    fn export(&mut self) -> Result<Snapshot> {
        Ok(Snapshot {
            loss_scale: Some(self.1),
            ..self.0.export()?
        })
    }

    fn import(&mut self, snapshot: Snapshot) -> Result<()> {
        self.0.import(snapshot)
    }
}

#[test]
fn a_scale_is_told_kept_and_gone_on_with() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = settings(folder.path(), 12, &half("\"dynamic\""));
    let mut run = Run::open(settings.clone(), &Start::Fresh).expect("a run");
    let snapshot = run.take_snapshot().expect("the first time");
    assert_eq!(snapshot.loss_scale, None);
    let engine = CpuEngine::new(run.config().clone(), run.gate(), run.adamw(), snapshot);
    let mut engine = Halving(engine.expect("an engine"), LossScale::default());
    run.train(&mut engine, &mut Looker::default())
        .expect("twelve steps in a row without one, which ten may not be in f32");
    let resumed = Run::open(settings, &Start::Resume).expect("the run");
    let snapshot = { resumed }.take_snapshot().expect("the first time");
    let scale = LossScale {
        scale: 16.0,
        good: 0,
    };
    assert_eq!(snapshot.loss_scale, Some(scale));
    let lines = read(&folder.path().join("out/metrics.jsonl")).expect("metrics");
    let told = lines.iter().filter_map(|line| match line {
        Line::Step(line) => Some((line.loss_scale, line.skipped)),
        Line::Evaluation(_) => None,
    });
    let expected = (0..12).map(|i| (Some(65_536.0 / (1 << i) as f32), Some(i + 1)));
    assert!(told.eq(expected));
}

#[test]
fn f16_is_refused_on_the_cpu() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = settings(folder.path(), 3, &half("\"dynamic\""));
    let refused = train(&settings, &Start::Fresh, &mut Looker::default());
    let error = refused.expect_err("the CPU computes in f64");
    assert!(error.is_unsupported(), "{error}");
    assert!(
        error
            .to_string()
            .contains("f16 compute needs --backend gpu"),
        "{error}"
    );
    assert!(!folder.path().join("out/metrics.jsonl").exists());
}
