//! Whole runs of tiny models on the CPU.

mod common;

use std::fs;
use std::path::Path;

use common::{Looker, MODEL, broken, settings, train};
use dla_core::checkpoint::Checkpoint;
use dla_core::{Model, Result};
use dla_train::metrics::{Line, read};
use dla_train::store::Store;
use dla_train::{
    Batch, CpuEngine, Engine, Pace, Run, Scores, Settings, Snapshot, Start, StepReport,
};

#[test]
fn a_small_text_is_learned() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = settings(folder.path(), 60, MODEL);
    let mut looker = Looker::default();
    let outcome = train(&settings, &Start::Fresh, &mut looker).expect("a run");
    assert!(outcome.finished && outcome.step == 60);
    let losses: Vec<f64> = looker.steps.iter().map(|line| line.loss).collect();
    assert!(
        (losses[0] - 256f64.ln()).abs() < 0.1,
        "an untrained model guesses: {}",
        losses[0]
    );
    let evaluation = outcome.evaluation.expect("an evaluation");
    assert!(
        losses[59] < 3.0 && evaluation.evaluation_loss < 3.0,
        "{losses:?}, {evaluation:?}"
    );
    // The folder: a model that opens, metrics, the curve.
    let checkpoint = Checkpoint::open(&outcome.checkpoint).expect("a checkpoint");
    assert!(checkpoint.faults().is_empty());
    assert_eq!(
        Model::load(&outcome.checkpoint)
            .expect("a model")
            .config()
            .dims()
            .capacity,
        3
    );
    let lines = read(&folder.path().join("out/metrics.jsonl")).expect("metrics");
    assert_eq!(lines.len(), 60 + 3);
    assert!(lines.contains(&Line::Evaluation(evaluation)));
    let curve = fs::read_to_string(folder.path().join("out/loss.svg")).expect("a curve");
    assert_eq!(curve.matches("<polyline").count(), 2);
    let store = Store::open(&folder.path().join("out"), 2, None);
    assert_eq!(store.steps().expect("checkpoints"), [55, 60]);
}

/// Two processes would write over each other's checkpoints and metrics.
#[test]
fn a_folder_is_one_runs_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = settings(folder.path(), 3, MODEL);
    let output = folder.path().join("out");
    let early = || {
        let mut run = Run::open(settings.clone(), &Start::Fresh).expect("a run");
        let snapshot = run.take_snapshot().expect("the first");
        let (config, gate) = (run.config().clone(), run.gate());
        let engine = CpuEngine::new(config, gate, run.adamw(), snapshot).expect("an engine");
        (run, engine)
    };
    let ((mut first, mut engine), (mut second, mut other)) = (early(), early());
    assert!(!output.exists(), "nothing is made before a run starts");
    let store = Store::open(&output, 1, None);
    let claim = store.claim(None).expect("a folder of its own");
    let mut looker = Looker::default();
    let error = first.train(&mut engine, &mut looker).expect_err("claimed");
    assert!(error.to_string().contains("another run"), "{error}");
    drop(claim);
    first.train(&mut engine, &mut looker).expect("a run");
    let error = second.train(&mut other, &mut looker).expect_err("too late");
    assert!(
        error.is_input() && error.to_string().contains("step 3"),
        "{error}"
    );
    assert_eq!(looker.steps.len(), 3, "refused runs do nothing");
}

/// The bytes of a checkpoint's files.
fn bytes(checkpoint: &Path) -> Vec<Vec<u8>> {
    [
        "config.json",
        "model.safetensors",
        "optimiser.safetensors",
        "state.json",
    ]
    .map(|name| fs::read(checkpoint.join(name)).expect("a file"))
    .into()
}

#[test]
fn a_run_that_was_stopped_ends_like_one_that_was_not() {
    let (whole, parts) = (tempfile::tempdir(), tempfile::tempdir());
    let (whole, parts) = (whole.expect("a folder"), parts.expect("a folder"));
    let (a, b) = (
        settings(whole.path(), 12, MODEL),
        settings(parts.path(), 12, MODEL),
    );
    let mut never = Looker::default();
    let end = train(&a, &Start::Fresh, &mut never).expect("a run");
    for (start, stop) in [
        (Start::Fresh, Some(4)),
        (Start::Resume, Some(7)),
        (Start::Resume, None),
    ] {
        let mut looker = Looker {
            stop_after: stop,
            ..Looker::default()
        };
        let outcome = train(&b, &start, &mut looker).expect("a part");
        assert_eq!(outcome.step, stop.unwrap_or(12));
        assert_eq!(outcome.finished, stop.is_none());
    }
    assert_eq!(
        bytes(&end.checkpoint),
        bytes(&parts.path().join("out/step-00000012"))
    );
    let numbers = |folder: &Path| -> Vec<(u64, f64)> {
        let lines = read(&folder.join("out/metrics.jsonl")).expect("metrics");
        let number = |line: &Line| match line {
            Line::Step(line) => (line.step, line.loss),
            Line::Evaluation(line) => (line.step, line.evaluation_loss),
        };
        lines.iter().map(number).collect()
    };
    assert_eq!(numbers(whole.path()), numbers(parts.path()));
}

#[test]
fn other_settings_or_texts_do_not_go_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = settings(folder.path(), 3, MODEL);
    train(&first, &Start::Fresh, &mut Looker::default()).expect("a run");
    let refused = |settings: &Settings, start: &Start| {
        let error = Run::open(settings.clone(), start).err().expect("refused");
        assert!(error.is_input(), "{error}");
        error.argument().to_owned()
    };
    assert!(
        refused(&first, &Start::Fresh).ends_with("out"),
        "a run is there already"
    );
    assert_eq!(
        refused(&settings(folder.path(), 4, MODEL), &Start::Resume),
        "optimiser.warmup"
    );
    let mut often = first.clone();
    often.every.log = 7;
    assert!(
        Run::open(often, &Start::Resume).is_ok(),
        "intervals may change"
    );
    fs::write(folder.path().join("text.txt"), "Another text. ".repeat(100)).expect("a text");
    assert_eq!(refused(&first, &Start::Resume), "data");
    let empty = tempfile::tempdir().expect("a folder");
    let none = settings(empty.path(), 3, MODEL);
    assert!(refused(&none, &Start::Resume).ends_with("out"));
}

/// A run with more steps goes on by the rates that so many steps have.
#[test]
fn kind_58_steps_may_grow_and_the_rate_follows() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = settings(folder.path(), 6, MODEL);
    let mut early = Looker::default();
    train(&first, &Start::Fresh, &mut early).expect("a run");
    let mut grown = first.clone();
    grown.steps = 12;
    let mut late = Looker::default();
    let outcome = train(&grown, &Start::Resume, &mut late).expect("the rest");
    assert!(outcome.finished && outcome.step == 12 && late.steps.len() == 6);
    for line in early.steps {
        assert_eq!(line.rate, first.rate().at(line.step - 1));
    }
    for line in late.steps {
        assert_eq!(line.rate, grown.rate().at(line.step - 1));
    }
    assert_ne!(first.rate().at(6), grown.rate().at(6));
    let error = Run::open(first, &Start::Resume).err().expect("fewer steps");
    assert_eq!((error.is_input(), error.argument()), (true, "steps"));
}

/// Checkpoints from before the settings were kept know them by their hash alone.
#[test]
fn kind_58_a_checkpoint_without_settings_goes_on_by_their_hash() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = settings(folder.path(), 6, MODEL);
    let mut looker = Looker {
        stop_after: Some(3),
        ..Looker::default()
    };
    let outcome = train(&first, &Start::Fresh, &mut looker).expect("a part");
    let path = outcome.checkpoint.join("state.json");
    let state = fs::read_to_string(&path).expect("the state");
    let mut state: serde_json::Value = serde_json::from_str(&state).expect("JSON");
    let options = state
        .as_object_mut()
        .and_then(|state| state.remove("options"));
    assert_eq!(options.expect("the settings")["batch"]["sequences"], 3);
    fs::write(&path, state.to_string()).expect("an older state");
    let mut other = first.clone();
    other.batch.sequences = 4;
    let error = Run::open(other, &Start::Resume).err().expect("others");
    assert_eq!(error.argument(), "settings");
    train(&first, &Start::Resume, &mut Looker::default()).expect("the same");
}

#[test]
fn a_run_starts_from_a_checkpoint() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = settings(folder.path(), 30, MODEL);
    let outcome = train(&first, &Start::Fresh, &mut Looker::default()).expect("a run");
    let mut second = settings(folder.path(), 2, "");
    second.output = folder.path().join("second");
    let start = Start::Init(outcome.checkpoint.clone());
    let mut looker = Looker::default();
    train(&second, &start, &mut looker).expect("a run without a section model");
    assert!(looker.steps[0].loss < 4.5, "{}", looker.steps[0].loss);
    let mut third = settings(
        folder.path(),
        2,
        &MODEL.replace("capacity = 3", "capacity = 4"),
    );
    third.output = folder.path().join("third");
    let error = Run::open(third, &start).err().expect("another model");
    assert_eq!(error.argument(), "model");
}

#[test]
fn a_run_that_diverges_says_so() {
    let report = StepReport {
        loss: f64::NAN,
        counted: 9,
        gradient_norm: f64::NAN,
        skipped: true,
        loss_scale: None,
        lost: None,
    };
    let (error, looker) = broken(report.clone(), MODEL);
    assert!(
        error.is_diverged() && error.argument() == "loss of step 1",
        "{error}"
    );
    assert!(looker.steps.is_empty());
    let (error, looker) = broken(
        StepReport {
            loss: 1.0,
            ..report
        },
        MODEL,
    );
    assert!(
        error.is_diverged() && error.argument().contains("gradient"),
        "{error}"
    );
    assert_eq!(looker.skipped, (1..10).collect::<Vec<_>>());
}

/// Weights so far astray that the operator refuses what the model makes of them.
#[test]
fn a_rate_that_is_far_too_high_diverges() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut settings = settings(folder.path(), 12, MODEL);
    (settings.optimiser.rate, settings.optimiser.warmup) = (1e30, Some(0));
    let error = train(&settings, &Start::Fresh, &mut Looker::default()).expect_err("no loss");
    assert!(error.is_diverged(), "{error}");
}

/// A state.json that tells of another step would let a run end early and its checkpoints be removed.
#[test]
fn a_state_that_is_not_its_checkpoints_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = settings(folder.path(), 12, MODEL);
    let mut looker = Looker {
        stop_after: Some(5),
        ..Looker::default()
    };
    let outcome = train(&settings, &Start::Fresh, &mut looker).expect("a part");
    let path = outcome.checkpoint.join("state.json");
    let good = fs::read_to_string(&path).expect("the state");
    for (from, to) in [
        ("\"step\": 5", "\"step\": 999999"),
        ("\"step\": 5", "\"step\": 0"),
        ("\"moves\": 5", "\"moves\": 18446744073709551615"),
    ] {
        assert!(good.contains(from), "{good}");
        fs::write(&path, good.replace(from, to)).expect("a damaged state");
        let error = train(&settings, &Start::Resume, &mut Looker::default()).expect_err(to);
        assert!(
            error.is_input() && error.argument().ends_with("state.json"),
            "{error}"
        );
    }
    fs::write(&path, good).expect("the state again");
    train(&settings, &Start::Resume, &mut Looker::default()).expect("the run goes on");
}

#[test]
fn a_tensor_that_a_step_makes_no_number_ends_the_run_and_the_last_checkpoint_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = settings(folder.path(), 12, MODEL);
    let mut looker = Looker {
        stop_after: Some(5),
        ..Looker::default()
    };
    let outcome = train(&first, &Start::Fresh, &mut looker).expect("a part");
    let before = bytes(&outcome.checkpoint);
    let mut run = Run::open(first, &Start::Resume).expect("the run");
    let mut snapshot = run.take_snapshot().expect("the first time");
    // A mean so large that the next step takes τ beyond the finite numbers.
    let dla = snapshot.mean.blocks[0].dla.as_mut().expect("DLA's tensors");
    dla.tau[1] = f32::MIN;
    let engine = CpuEngine::new(run.config().clone(), run.gate(), run.adamw(), snapshot);
    let mut looker = Looker::default();
    let trained = run.train(&mut engine.expect("an engine"), &mut looker);
    let error = trained.expect_err("τ is lost");
    assert!(error.is_diverged(), "{error}");
    assert_eq!(error.argument(), "model.layers.0.attn.dla.tau of step 6");
    assert!(error.to_string().contains("the last checkpoint"), "{error}");
    assert!(looker.steps.is_empty(), "the step does not count");
    assert_eq!(bytes(&outcome.checkpoint), before);
    let steps = fs::read_dir(folder.path().join("out")).expect("the folder");
    let names = steps.map(|entry| entry.expect("an entry").file_name());
    let newest = names.filter(|name| name.to_string_lossy().starts_with("step-"));
    assert_eq!(newest.max(), outcome.checkpoint.file_name().map(Into::into));
}

#[test]
fn thresholds_that_nothing_passes_are_trained_around() {
    let folder = tempfile::tempdir().expect("a folder");
    let never = settings(folder.path(), 3, &MODEL.replace("1.2", "inf"));
    let outcome = train(&never, &Start::Fresh, &mut Looker::default()).expect("a run");
    let mut run = Run::open(never, &Start::Resume).expect("the run");
    assert!(outcome.finished);
    let tensors = run.take_snapshot().expect("the first time").tensors;
    let tau = tensors.blocks[0].dla.as_ref().map(|dla| &dla.tau[..]);
    assert_eq!(tau, Some(&[f32::INFINITY; 2][..]));
}

/// An engine that notes θ of its steps.
struct Noted(CpuEngine, Vec<f64>);

impl Engine for Noted {
    fn config(&self) -> &dla_core::model::ModelConfig {
        self.0.config()
    }

    fn step(&mut self, batches: &[Batch], pace: Pace) -> Result<StepReport> {
        self.1.push(pace.theta);
        self.0.step(batches, pace)
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

#[test]
fn theta_follows_the_step_alone() {
    let (whole, parts) = (tempfile::tempdir(), tempfile::tempdir());
    let (whole, parts) = (whole.expect("a folder"), parts.expect("a folder"));
    let annealed = format!("{MODEL}theta = 0.4\ntheta_end = 0.1\n");
    let noted = |folder: &Path, start, stop_after| {
        let settings = settings(folder, 9, &annealed);
        let mut run = Run::open(settings, &start).expect("a run");
        let snapshot = run.take_snapshot().expect("the first time");
        let engine = CpuEngine::new(run.config().clone(), run.gate(), run.adamw(), snapshot);
        let mut engine = Noted(engine.expect("an engine"), Vec::new());
        let mut looker = Looker {
            stop_after,
            ..Looker::default()
        };
        let outcome = run.train(&mut engine, &mut looker).expect("a run");
        (engine.1, outcome.checkpoint)
    };
    let (never, end) = noted(whole.path(), Start::Fresh, None);
    assert_eq!((never.len(), never[0], never[8]), (9, 0.4, 0.1));
    assert!((never[4] - 0.2).abs() < 1e-15, "the middle: {}", never[4]);
    let (mut stopped, _) = noted(parts.path(), Start::Fresh, Some(4));
    let (rest, last) = noted(parts.path(), Start::Resume, None);
    stopped.extend(rest);
    assert_eq!(stopped, never);
    assert_eq!(bytes(&last), bytes(&end));
}
