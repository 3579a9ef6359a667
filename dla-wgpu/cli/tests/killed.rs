//! Runs that are interrupted, ended or killed while they write leave nothing behind, or nothing for long.
#![cfg(unix)]

mod common;

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{Raw, dla, golden, op, stderr, stdout};
use dla_cli::tensors::TensorFile;

/// How long a test waits for something.
const PATIENCE: Duration = Duration::from_secs(120);
/// Large enough that a model of it takes a while to be written.
const VOCABULARY: usize = 1 << 19;

/// The golden Mamba-2 with a vocabulary of zeros that take no room on the disk, in `folder`.
fn wide_model(folder: &Path) -> PathBuf {
    let (source, model) = (golden("model/mamba2_groups"), folder.join("model"));
    fs::create_dir(&model).expect("a new folder");
    let config = fs::read_to_string(source.join("config.json")).expect("text");
    let mut config: serde_json::Value = serde_json::from_str(&config).expect("JSON");
    config["vocab_size"] = VOCABULARY.into();
    fs::write(model.join("config.json"), config.to_string()).expect("written");
    let tensors = TensorFile::read(&source.join("model.safetensors")).expect("a checkpoint");
    let (mut raw, mut zeros) = (Raw::default(), Vec::new());
    for name in tensors.names() {
        let tensor = tensors.require(&name).expect("its own name");
        let shape = tensor.shape();
        match ["backbone.embeddings.weight", "lm_head.weight"].contains(&&*name) {
            true => zeros.push((name.clone(), [VOCABULARY, shape[1]])),
            false => raw.tensor(&name, "F32", shape, tensor.bytes().expect("read").into()),
        }
    }
    let mut header: serde_json::Value = serde_json::from_str(&raw.header()).expect("JSON");
    let mut end = raw.data().len();
    for (name, shape) in zeros {
        let offsets = [end, end + 4 * shape[0] * shape[1]];
        end = offsets[1];
        header[name] =
            serde_json::json!({ "dtype": "F32", "shape": shape, "data_offsets": offsets });
    }
    let begin = common::file(&header.to_string(), &raw.data());
    let mut file = File::create(model.join("model.safetensors")).expect("a file");
    file.write_all(&begin).expect("written");
    let zeros = end - raw.data().len();
    file.set_len((begin.len() + zeros) as u64).expect("longer");
    model
}

fn spawn(words: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_dla"))
        .args(words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts")
}

fn send(run: &Child, signal: &str) {
    let sent = Command::new("kill")
        .args([signal, &run.id().to_string()])
        .status();
    assert!(sent.expect("kill is there").success());
}

/// The temporary folders in `place`.
fn temporaries(place: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(place).expect("a folder").flatten();
    let paths = entries.map(|entry| entry.path());
    paths
        .filter(|path| {
            let name = path.file_name().map(|name| name.to_string_lossy());
            name.is_some_and(|name| name.starts_with('.') && name != ".lock")
        })
        .collect()
}

/// Waits until `run` has begun to write in `place`.
fn wait_for_writing(run: &mut Child, place: &Path) {
    let start = Instant::now();
    let writes = |folder: &PathBuf| folder.join("content").exists();
    while !(place.is_dir() && temporaries(place).iter().any(writes)) {
        let ended = run.try_wait().expect("a child");
        assert!(
            ended.is_none(),
            "ended before it was seen writing: {ended:?}"
        );
        assert!(start.elapsed() < PATIENCE, "nothing is written");
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn end(run: Child) -> Output {
    run.wait_with_output().expect("the command ends")
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// Words that write a large output into `folder`, by command; each with the output's path.
fn writers(folder: &Path, model: &Path) -> Vec<(Vec<String>, PathBuf)> {
    let mut ids = Raw::default();
    let zeros = vec![0u8; 8 * 16];
    ids.tensor("input_ids", "I64", &[1, 16], zeros);
    let mut case = Raw::case();
    for (name, shape) in [
        ("q", vec![1, 1, 1, 256]),
        ("k", vec![1, 1, 1, 256]),
        ("v", vec![1, 1, 8, 512]),
        ("g", vec![1, 1, 8]),
        ("lambda", vec![1, 1, 8, 32]),
    ] {
        case.floats(name, &shape, if name == "g" { -0.1 } else { 0.5 });
    }
    let [ids_path, case_path] = ["ids", "case"].map(|name| folder.join(name));
    fs::write(&ids_path, ids.bytes()).expect("written");
    fs::write(&case_path, case.bytes()).expect("written");
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let outputs = ["upcycled", "logits", "states"].map(|name| folder.join("out").join(name));
    let [upcycle, logits, op] = outputs.each_ref().map(|path| text(path));
    let (model, ids, case) = (text(model), text(&ids_path), text(&case_path));
    let lines = [
        format!("upcycle --model {model} --output {upcycle}"),
        format!("logits --backend cpu --model {model} --ids {ids} --output {logits}"),
        format!("op --backend cpu --input {case} --output {op}"),
    ];
    lines.iter().map(|line| words(line)).zip(outputs).collect()
}

#[test]
fn kind_55_signals_leave_nothing_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = wide_model(folder.path());
    let place = folder.path().join("out");
    fs::create_dir(&place).expect("a folder");
    let writers = writers(folder.path(), &model);
    let signals = [("-INT", 2), ("-TERM", 15), ("-HUP", 1)];
    // Every command once, upcycling with every signal.
    let others = [(&writers[1], signals[1]), (&writers[2], signals[0])];
    let runs = signals.map(|signal| (&writers[0], signal));
    for ((words, output), (name, signal)) in runs.into_iter().chain(others) {
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let mut run = spawn(&words);
        wait_for_writing(&mut run, &place);
        send(&run, name);
        let run = end(run);
        assert_eq!(run.status.signal(), Some(signal), "{words:?}: {run:?}");
        assert_eq!(stderr(&run), "", "{words:?}");
        assert_eq!(temporaries(&place), [] as [PathBuf; 0], "{words:?}, {name}");
        assert!(!output.exists(), "{words:?}");
    }
    let run = dla(&writers[0].0);
    assert!(run.status.success(), "not interrupted: {}", stderr(&run));
}

/// What a kill leaves goes with the next run that writes there; what a living process is writing stays.
#[test]
fn kind_55_the_next_run_removes_what_a_kill_left() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = wide_model(folder.path());
    let place = folder.path().join("out");
    fs::create_dir(&place).expect("a folder");
    let upcycle = |name: &str| {
        let output = text(&place.join(name));
        let mut run = spawn(&["upcycle", "--model", &text(&model), "--output", &output]);
        wait_for_writing(&mut run, &place);
        run
    };
    let killed = upcycle("killed");
    send(&killed, "-KILL");
    assert_eq!(end(killed).status.signal(), Some(9));
    let left = temporaries(&place);
    assert_eq!(left.len(), 1, "a kill cannot be answered: {left:?}");
    let input = folder.path().join("small");
    fs::write(&input, Raw::case().bytes()).expect("written");
    let run = op(&input, &place.join("first"), &[]);
    assert!(run.status.success(), "{}", stderr(&run));
    assert_eq!(temporaries(&place), [] as [PathBuf; 0], "its owner is gone");
    let alive = upcycle("alive");
    send(&alive, "-STOP");
    let written = temporaries(&place);
    assert_eq!(written.len(), 1, "{written:?}");
    let run = op(&input, &place.join("second"), &[]);
    assert!(run.status.success(), "{}", stderr(&run));
    assert_eq!(temporaries(&place), written, "its owner is alive");
    send(&alive, "-CONT");
    let alive = end(alive);
    assert!(alive.status.success(), "{}", stderr(&alive));
    assert!(place.join("alive/model.safetensors").is_file());
    assert_eq!(temporaries(&place), [] as [PathBuf; 0]);
}

/// `nohup` and shells that start jobs in the background have signals ignored.
#[cfg(target_os = "linux")]
#[test]
fn kind_55_signals_that_were_ignored_stay_ignored() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = wide_model(folder.path());
    let output = folder.path().join("out");
    let mut run = Command::new("sh")
        .args(["-c", "trap '' HUP; exec \"$0\" \"$@\""])
        .args([env!("CARGO_BIN_EXE_dla"), "upcycle", "--model"])
        .arg(&model)
        .arg("--output")
        .arg(&output)
        .stderr(Stdio::piped())
        .spawn()
        .expect("a shell");
    wait_for_writing(&mut run, folder.path());
    send(&run, "-HUP");
    let run = end(run);
    assert!(run.status.success(), "{run:?}");
    assert!(output.join("model.safetensors").is_file());
}

/// Settings of a tiny run that saves at every step, in `folder`.
fn run_settings(folder: &Path) -> String {
    fs::write(
        folder.join("text.txt"),
        "It was the best of times. ".repeat(60),
    )
    .expect("a text");
    let settings = format!(
        "steps = 100000\noutput = {:?}\n[model]\nfamily = \"mamba2\"\nhidden = 64\nlayers = 1\nheads = 2\n\
         head_dim = 64\nstate = 4\n[model.dla]\ncapacity = 3\n[data]\ntask = \"text\"\nfiles = [{:?}]\n\
         length = 8\n[batch]\nsequences = 1\n[every]\nlog = 1\nevaluate = 0\ncheckpoint = 1\nkeep = 1\n",
        folder.join("out"),
        folder.join("text.txt"),
    );
    let path = folder.join("run.toml");
    fs::write(&path, settings).expect("settings");
    text(&path)
}

#[test]
fn kind_55_a_killed_training_run_is_tidied_when_it_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = run_settings(folder.path());
    let place = folder.path().join("out");
    let words = [
        "train",
        "--backend",
        "cpu",
        "--config",
        &settings,
        "--resume",
    ];
    // A save may end between the look and the kill.
    let start = Instant::now();
    while !place.is_dir() || temporaries(&place).is_empty() {
        assert!(start.elapsed() < PATIENCE, "no kill met a save");
        let resumes = place.is_dir();
        let mut run = spawn(&words[..words.len() - usize::from(!resumes)]);
        // The first look would be at what is tidied away before the first step.
        wait_for_writing(&mut run, &place);
        while !place
            .read_dir()
            .expect("a folder")
            .flatten()
            .any(|entry| entry.file_name().to_string_lossy().starts_with("step-"))
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        wait_for_writing(&mut run, &place);
        send(&run, "-KILL");
        end(run);
    }
    let mut run = spawn(&words);
    let metrics = place.join("metrics.jsonl");
    let lines = |path: &Path| fs::read_to_string(path).map_or(0, |text| text.lines().count());
    let before = lines(&metrics);
    while lines(&metrics) < before + 3 {
        assert!(run.try_wait().expect("a child").is_none(), "it goes on");
        std::thread::sleep(Duration::from_millis(1));
    }
    send(&run, "-INT");
    let run = end(run);
    assert!(run.status.success(), "{}", stderr(&run));
    assert!(stdout(&run).contains("stopped; go on with"));
    assert_eq!(temporaries(&place), [] as [PathBuf; 0]);
}

/// Models of a grid are written to the system's folder for temporary files.
#[test]
fn kind_55_an_interrupted_grid_leaves_no_models() {
    let folder = tempfile::tempdir().expect("a folder");
    let system = folder.path().join("tmp");
    fs::create_dir(&system).expect("a folder");
    let model = text(&golden("model/mamba2_groups"));
    let upcycled = text(&folder.path().join("dla"));
    let run = dla(["upcycle", "--model", &model, "--output", &upcycled]);
    assert!(run.status.success(), "{}", stderr(&run));
    let line = "eval --backend cpu --task mqar --length 64 --pairs 2 --examples 100000 --grid K=2:tau=1 --model";
    let mut run = Command::new(env!("CARGO_BIN_EXE_dla"))
        .args(line.split(' '))
        .arg(&upcycled)
        .env("TMPDIR", &system)
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    wait_for_writing(&mut run, &system);
    std::thread::sleep(Duration::from_millis(100));
    send(&run, "-TERM");
    let run = end(run);
    assert_eq!(run.status.signal(), Some(15), "{run:?}");
    assert_eq!(temporaries(&system), [] as [PathBuf; 0]);
}

/// A checkpoint that has its name is whole, also the one that is about to be removed.
#[test]
fn kind_55_checkpoints_lose_their_names_before_their_files() {
    const FILES: [&str; 4] = [
        "config.json",
        "model.safetensors",
        "optimiser.safetensors",
        "state.json",
    ];
    let folder = tempfile::tempdir().expect("a folder");
    let settings = run_settings(folder.path());
    let place = folder.path().join("out");
    let run = spawn(&["train", "--backend", "cpu", "--config", &settings]);
    let (start, mut seen) = (Instant::now(), std::collections::HashSet::new());
    while seen.len() < 60 {
        assert!(
            start.elapsed() < PATIENCE,
            "only {} checkpoints",
            seen.len()
        );
        for entry in place.read_dir().into_iter().flatten().flatten() {
            if !entry.file_name().to_string_lossy().starts_with("step-") {
                continue;
            }
            let checkpoint = entry.path();
            let whole = FILES.iter().all(|name| checkpoint.join(name).is_file());
            assert!(
                whole || !checkpoint.exists(),
                "{} is half removed",
                checkpoint.display()
            );
            seen.insert(checkpoint);
        }
    }
    send(&run, "-INT");
    assert!(end(run).status.success());
}

/// The lines of the sources in `folder` that write files by themselves, outside the module that cleans up and outside tests.
fn writing_lines(folder: &Path, found: &mut Vec<String>) {
    let writers = [
        "fs::write(",
        "File::create",
        "OpenOptions",
        "tempfile::",
        "create_dir",
        "remove_dir",
    ];
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            if entry.file_name() != "atomic" {
                writing_lines(&path, found);
            }
            continue;
        }
        let source = fs::read_to_string(&path).expect("a source");
        let code = source.split("#[cfg(test)]").next().unwrap_or_default();
        let lines = code.lines().map(str::trim);
        let lines = lines.filter(|line| !line.starts_with("use ") && !line.starts_with("//"));
        let file = entry.file_name().to_string_lossy().into_owned();
        found.extend(
            lines
                .filter(|line| writers.iter().any(|writer| line.contains(writer)))
                .map(|line| format!("{file}: {line}")),
        );
    }
}

/// A writer that goes its own way leaves behind what no signal and no later run removes.
#[test]
fn kind_55_whatever_is_written_is_written_in_one_place() {
    let mut found = Vec::new();
    for folder in ["src", "../train/src"] {
        writing_lines(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join(folder),
            &mut found,
        );
    }
    found.sort();
    // The run's own folder, the lock in it, and metrics, to which lines are added.
    let known = [
        "metrics.rs: ",
        "store.rs: fs::create_dir_all",
        "store.rs: let file = File::create",
    ];
    let strange = |line: &&String| !known.iter().any(|known| line.starts_with(known));
    let strange: Vec<_> = found.iter().filter(strange).collect();
    assert!(strange.is_empty(), "{strange:?}");
    assert_eq!(found.len(), known.len(), "{found:?}");
}
