//! `dla train` and `dla eval`, from settings to what a trained model can do.

mod common;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{assert_refused, dla, stderr, stdout};
use serde_json::Value;

/// A folder with a text and the settings of a tiny run on it.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new(steps: u64) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let text = "It was the best of times, it was the worst of times. ".repeat(60);
        fs::write(folder.path().join("text.txt"), text).expect("a text");
        let settings = format!(
            "seed = 1\nsteps = {steps}\noutput = {:?}\n[model]\nfamily = \"mamba2\"\nhidden = 8\nlayers = 1\n\
             heads = 2\nhead_dim = 8\nstate = 4\n[model.dla]\ncapacity = 3\ntau = 1.2\n[data]\ntask = \"text\"\n\
             files = [{:?}]\nlength = 32\n[batch]\nsequences = 2\n[every]\nlog = 1\ncheckpoint = 2\n",
            folder.path().join("out"),
            folder.path().join("text.txt"),
        );
        fs::write(folder.path().join("run.toml"), settings).expect("settings");
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn train(&self, more: &[&str]) -> Output {
        let config = self.path("run.toml");
        let words = ["train", "--backend", "cpu", "--config"].map(Into::into);
        let more = more.iter().map(Into::into);
        dla(words
            .into_iter()
            .chain([config.into_os_string()])
            .chain(more))
    }

    /// `dla eval --json` of the checkpoint after `step` steps.
    fn eval(&self, step: u64, more: &[&str]) -> Value {
        let run = self.try_eval(step, more);
        assert!(run.status.success(), "{}", stderr(&run));
        serde_json::from_str(&stdout(&run)).expect("JSON")
    }

    fn try_eval(&self, step: u64, more: &[&str]) -> Output {
        let model = self.path(&format!("out/step-{step:08}"));
        let words = ["eval", "--backend", "cpu", "--json", "--model"].map(Into::into);
        let more = more.iter().map(Into::into);
        dla(words
            .into_iter()
            .chain([model.into_os_string()])
            .chain(more))
    }
}

/// The steps are timed, and nothing of the run is left behind.
#[test]
fn steps_are_timed() {
    let folder = Folder::new(4);
    let config = folder.path("run.toml");
    let words = ["bench", "train", "--backend", "cpu", "--json", "--runs"].map(Into::into);
    let more = ["3", "--config"].map(Into::into);
    let run = dla(words
        .into_iter()
        .chain(more)
        .chain([config.into_os_string()]));
    assert!(run.status.success(), "{}", stderr(&run));
    let told: Value = serde_json::from_str(&stdout(&run)).expect("JSON");
    assert_eq!(told["runs"], 3);
    assert_eq!(told["sequences"], 2);
    for figure in ["step_ms", "tokens_per_s", "weight_flop_per_s"] {
        assert!(told[figure].as_f64().is_some_and(|x| x > 0.0), "{told}");
    }
    assert!(
        !folder.path("out").exists(),
        "the run's own folder is not touched"
    );
}

/// Away from a terminal a run says where it stands once a `log`, and nothing else.
#[test]
fn kind_51_a_run_that_nobody_watches_writes_a_line_per_log() {
    let folder = Folder::new(5);
    let config = folder.path("run.toml");
    let settings = fs::read_to_string(&config).expect("settings");
    fs::write(&config, settings.replace("log = 1", "log = 2")).expect("settings");
    let run = folder.train(&["--json"]);
    assert!(run.status.success(), "{}", stderr(&run));
    let told: Value = serde_json::from_str(&stdout(&run)).expect("JSON and nothing else");
    assert_eq!(told["step"], 5);
    let told = stderr(&run);
    let lines: Vec<_> = told.lines().collect();
    let begins = [
        "2 of 5 steps (40%), ",
        "4 of 5 steps (80%), ",
        "5 of 5 steps (100%), ",
        "step 5: held out ",
    ];
    assert_eq!(lines.len(), begins.len(), "{told}");
    for (line, begin) in lines.iter().zip(begins) {
        assert!(line.starts_with(begin), "{line}");
    }
    let [pace, left, loss, speed] = [" steps/s, ", " s left, ", "loss ", " tokens/s"];
    for part in [pace, left, loss, speed] {
        assert!(lines[0].contains(part), "{}", lines[0]);
    }
}

#[test]
fn a_run_is_trained_measured_and_goes_on() {
    let folder = Folder::new(4);
    let run = folder.train(&[]);
    assert!(run.status.success(), "{}", stderr(&run));
    assert!(
        stdout(&run).starts_with("step 4 of 4, loss "),
        "{}",
        stdout(&run)
    );
    let again = folder.train(&[]);
    assert_refused("a second run", &again, "--resume");
    let done = folder.train(&["--resume"]);
    assert!(done.status.success() && stdout(&done).contains("step 4 of 4"));
    let text = folder.path("text.txt").display().to_string();
    let score = folder.eval(
        4,
        &["--task", "text", "--text-file", &text, "--length", "32"],
    );
    let bits = score["bits_per_byte"].as_f64().expect("a number");
    assert!((6.0..9.0).contains(&bits), "{bits}");
    assert_eq!(score["bytes"], score["tokens"]);
    let held = folder.eval(4, &["--task", "text", "--text-file", &text, "--held-out"]);
    assert_eq!(held["tokens"], 53 * 3 - 1);
    let states = folder.eval(
        4,
        &["--task", "states", "--text-file", &text, "--length", "100"],
    );
    let head = &states["heads"][1];
    let count = |key: &str| head[key].as_u64().expect("a count");
    assert_eq!(count("boundaries") - count("merges"), count("live"));
    let bound = folder.eval(
        4,
        &["--task", "bound", "--text-file", &text, "--length", "60"],
    );
    for head in bound["heads"].as_array().expect("heads") {
        let number = |key: &str| head[key].as_f64().expect("a number");
        assert!(
            number("offline") <= number("greedy") * (1.0 + 1e-9),
            "{head}"
        );
        assert!(number("offline") <= number("single"), "{head}");
    }
    let recall = folder.eval(
        4,
        &[
            "--task",
            "mqar",
            "--length",
            "32",
            "--pairs",
            "2,8",
            "--examples",
            "3",
        ],
    );
    assert_eq!(recall["pairs"][1]["pairs"], 8);
    let grid = folder.eval(
        4,
        &[
            "--task",
            "mqar",
            "--length",
            "32",
            "--pairs",
            "4",
            "--grid",
            "K=1,3,5:τ=0.2,1.2",
        ],
    );
    assert_eq!(grid["grid"].as_array().expect("points").len(), 6);
    assert_eq!(grid["grid"][3]["capacity"], 3);
}

/// Where no bound is to divide by there is no ratio; where no token is there is nothing to compare.
#[test]
fn bounds_of_next_to_no_text() {
    let folder = Folder::new(1);
    assert!(folder.train(&[]).status.success());
    let one = folder.path("one.txt");
    fs::write(&one, "a").expect("a text");
    let one = one.display().to_string();
    for task in ["bound", "states"] {
        let words = ["--task", task, "--text-file", &one, "--held-out"];
        assert_refused(task, &folder.try_eval(1, &words), "at least one token");
    }
    let words = ["--task", "bound", "--text-file", &one];
    let bound = folder.eval(1, &words);
    for head in bound["heads"].as_array().expect("heads") {
        assert_eq!(
            (&head["offline"], &head["ratio"]),
            (&0.0.into(), &Value::Null)
        );
    }
    let words = [&words[..], &["--grid", "K=2:tau=1"]].concat();
    let grid = folder.eval(1, &words);
    assert_eq!(grid["grid"][0]["number"], Value::Null, "{grid}");
    let model = folder.path("out/step-00000001").display().to_string();
    let told = dla(["eval", "--backend", "cpu", "--model", &model]
        .iter()
        .chain(&words));
    assert_eq!(
        stdout(&told),
        "greedy/offline bound  τ 1\nK 2                     –\n"
    );
}

/// A disk that is full before a point's model is whole is told as such, though only a buffer's last bytes are missing.
#[cfg(target_os = "linux")]
#[test]
fn a_point_of_a_grid_that_cannot_be_written_is_told() {
    let folder = Folder::new(1);
    assert!(folder.train(&[]).status.success());
    let model = folder.path("out/step-00000001");
    let size = fs::metadata(model.join("model.safetensors")).expect("weights");
    let blocks = (size.len() - 1) / 512;
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
    let words = "--task mqar --length 32 --pairs 4 --grid K=3:tau=1.2";
    let run = Command::new("sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_dla")])
        .args(["eval", "--backend", "cpu", "--model"])
        .arg(model)
        .args(words.split(' '))
        .output()
        .expect("a shell");
    assert_eq!(run.status.code(), Some(1), "{}", stderr(&run));
    assert!(
        stderr(&run).contains("model.safetensors: expected to be written"),
        "{}",
        stderr(&run)
    );
}

#[test]
fn needles_are_drawn_as_a_heat_map() {
    let folder = Folder::new(1);
    assert!(folder.train(&[]).status.success());
    for (name, begins) in [("map.svg", "<svg "), ("map.html", "<!doctype html>")] {
        let path = folder.path(name).display().to_string();
        let words = [
            "--task",
            "niah",
            "--lengths",
            "600,700",
            "--kinds",
            "single_1,multikey_2",
            "--depths",
            "3",
            "--examples",
            "1",
            "--picture",
            &path,
        ];
        let result = folder.eval(1, &words);
        assert_eq!(result["cells"].as_array().expect("cells").len(), 2 * 2 * 3);
        let picture = fs::read_to_string(&path).expect("a picture");
        assert!(picture.starts_with(begins) && picture.matches("<rect x=").count() == 12);
    }
}

#[test]
fn mistakes_are_one_line_and_exit_2() {
    let folder = Folder::new(1);
    let settings = fs::read_to_string(folder.path("run.toml")).expect("settings");
    for (from, to, fault) in [
        ("steps", "stepz", "stepz"),
        ("hidden = 8", "hidden = 8\nhiden = 9", "hiden"),
        ("capacity = 3", "capacity = -3", "line 12"),
        ("length = 32", "length = 3200", "data.length"),
        ("sequences = 2", "sequences = 4000000000", "batch.sequences"),
        (
            "layers = 1",
            "layers = 1\nnorm_epsilon = -1.0",
            "norm_epsilon",
        ),
        ("[every]", "[optimiser]\nleast_rate = 5.0\n[every]", "least"),
        ("text.txt", "none.txt", "none.txt"),
        ("[model]", "[model", "line 4"),
    ] {
        fs::write(folder.path("run.toml"), settings.replace(from, to)).expect("settings");
        assert_refused(to, &folder.train(&[]), fault);
    }
    fs::write(folder.path("run.toml"), &settings).expect("settings");
    assert_refused("nothing there", &folder.train(&["--resume"]), "checkpoint");
    assert_refused("no model", &folder.train(&["--init", "/none"]), "/none");
    assert_refused(
        "both",
        &folder.train(&["--init", "x", "--resume"]),
        "--resume",
    );
    assert!(folder.train(&[]).status.success());
    for (words, fault) in [
        (&["--task", "text"][..], "--text-file"),
        (&["--task", "mqar", "--length", "33"], "length"),
        (&["--task", "niah", "--kinds", "single_9"], "single_9"),
        (&["--task", "niah", "--kinds", "single_2"], "texts"),
        (&["--task", "niah", "--picture", "x.png"], ".svg"),
        (
            &["--task", "niah", "--lengths", "18446744073709551615"],
            "length",
        ),
        (
            &[
                "--task",
                "niah",
                "--lengths",
                "600,300",
                "--examples",
                "1000000",
            ],
            "length",
        ),
        (&["--task", "mqar", "--grid", "K=1"], "--grid"),
        (
            &["--task", "mqar", "--pairs", "1", "--grid", "K=99:tau=1"],
            "--grid: expected capacities from 1 to 64, got 99",
        ),
    ] {
        assert_refused(fault, &folder.try_eval(1, words), fault);
    }
}

/// A window as long as numbers go is the whole text.
#[test]
fn any_window_is_taken() {
    let folder = Folder::new(1);
    assert!(folder.train(&[]).status.success());
    let text = folder.path("text.txt").display().to_string();
    let [most, whole] = ["18446744073709551615", "100000"].map(|window| {
        let words = ["--task", "text", "--text-file", &text, "--lengths", window];
        folder.eval(1, &words)["bits_per_byte"].clone()
    });
    assert_eq!(most, whole);
}

/// A run that would not end in time ends at Ctrl-C, with a checkpoint.
#[cfg(unix)]
#[test]
fn ctrl_c_saves_and_tells_how_to_go_on() {
    let stopped = Folder::new(100_000);
    let config = stopped.path("run.toml");
    let run = Command::new(env!("CARGO_BIN_EXE_dla"))
        .args(["train", "--backend", "cpu", "--config"])
        .arg(&config)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let metrics = stopped.path("out/metrics.jsonl");
    let start = Instant::now();
    while !fs::read_to_string(&metrics).is_ok_and(|text| text.lines().count() > 3) {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "no steps were done"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    let sent = Command::new("kill")
        .args(["-INT", &run.id().to_string()])
        .status();
    assert!(sent.expect("kill is there").success());
    let run = run.wait_with_output().expect("the command ends");
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    let told = stdout(&run);
    let resume = format!("dla train --config {} --resume", config.display());
    assert!(told.contains(&resume), "{told}");
    let checkpoint = told.lines().next().and_then(|line| line.split(": ").last());
    let checkpoint = PathBuf::from(checkpoint.expect("the checkpoint"));
    let step: u64 = checkpoint
        .to_str()
        .and_then(|name| name.rsplit("step-").next()?.parse().ok())
        .expect("its step");
    let state: Value =
        serde_json::from_slice(&fs::read(checkpoint.join("state.json")).expect("a file"))
            .expect("JSON");
    assert_eq!(state["step"], step);
    let model = dla(["inspect", "--model"]
        .map(Into::into)
        .into_iter()
        .chain([checkpoint.into_os_string()]));
    assert!(model.status.success(), "{}", stderr(&model));
}

/// The folder says how it was made, and what may change when a run goes on.
#[test]
fn kind_58_a_run_keeps_its_settings_and_names_what_differs() {
    let folder = Folder::new(4);
    assert!(folder.train(&[]).status.success());
    let settings = fs::read_to_string(folder.path("run.toml")).expect("settings");
    let kept = || fs::read_to_string(folder.path("out/settings.toml")).expect("the run's settings");
    assert_eq!(kept(), settings);
    for (from, to, told) in [
        (
            "tau = 1.2",
            "tau = 1.1",
            "train, model.dla.tau: expected 1.2, as the run was started with, got 1.1",
        ),
        (
            "length = 32\n[batch]\nsequences = 2",
            "length = 30\n[batch]\nsequences = 3",
            "train, batch.sequences, data.length: expected 2, 32, as the run was started with, got 3, 30",
        ),
        (
            "[every]",
            "[optimiser]\nwarmup = 1\n[every]",
            "train, optimiser.warmup: expected none, as the run was started with, got 1",
        ),
        (
            "steps = 4",
            "steps = 3",
            "train, steps: expected at least the 4",
        ),
    ] {
        assert!(settings.contains(from), "{from}");
        fs::write(folder.path("run.toml"), settings.replace(from, to)).expect("settings");
        assert_refused(to, &folder.train(&["--resume"]), told);
        assert_eq!(kept(), settings, "a refused run changes nothing");
    }
    let grown = settings.replace("steps = 4", "steps = 6");
    fs::write(folder.path("run.toml"), &grown).expect("settings");
    let run = folder.train(&["--resume"]);
    assert!(run.status.success(), "{}", stderr(&run));
    assert!(
        stdout(&run).starts_with("step 6 of 6, loss "),
        "{}",
        stdout(&run)
    );
    assert_eq!(kept(), grown);
    fs::write(folder.path("run.toml"), &settings).expect("settings");
    assert_refused(
        "fewer",
        &folder.train(&["--resume"]),
        "train, steps: expected at least the 6",
    );
    fs::write(folder.path("run.toml"), &grown).expect("settings");
    fs::write(folder.path("text.txt"), "Another text. ".repeat(100)).expect("a text");
    assert_refused("texts", &folder.train(&["--resume"]), "train, data: ");
}
