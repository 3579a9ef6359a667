//! Outputs that cannot be written: refused before any work where that can be known, and named where it cannot.
#![cfg(unix)]

mod common;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

use common::{Raw, assert_refused, byte_model, dla, stderr};

/// Nobody's user id.
const NOBODY: u32 = 65534;

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// A settings file whose texts are not there.
fn settings(folder: &Path, output: &str) -> String {
    let path = folder.join("run.toml");
    let settings = format!(
        "steps = 1\noutput = {output:?}\n[model]\nfamily = \"mamba2\"\nhidden = 8\nlayers = 1\nheads = 2\n\
         head_dim = 8\nstate = 4\n[data]\ntask = \"text\"\nfiles = [\"/none\"]\nlength = 8\n"
    );
    fs::write(&path, settings).expect("written");
    text(&path)
}

/// The words of every command that writes a file to `output`; what they read is not there, so that only a check before any
/// work can speak of the output.
fn files(output: &str) -> Vec<Vec<String>> {
    let (svg, none) = (format!("{output}.svg"), "/none");
    let lines: [&[&str]; 5] = [
        &["op", "--input", none, "--output", output],
        &["logits", "--model", none, "--ids", none, "--output", output],
        &[
            "logits",
            "--model",
            none,
            "--ids",
            none,
            "--output",
            "x",
            "--decisions",
            output,
        ],
        &[
            "segment",
            "--model",
            none,
            "--text-file",
            none,
            "--picture",
            &svg,
        ],
        &[
            "eval",
            "--model",
            none,
            "--task",
            "niah",
            "--text-file",
            none,
            "--picture",
            &svg,
        ],
    ];
    let owned = |words: &&[&str]| words.iter().map(|&word| word.to_owned()).collect();
    lines.iter().map(owned).collect()
}

/// Every command that writes anything.
fn writers(folder: &Path, output: &str) -> Vec<Vec<String>> {
    let mut all = files(output);
    let upcycle = ["upcycle", "--model", "/none", "--output", output];
    all.push(upcycle.map(str::to_owned).into());
    all.into_iter()
        .chain([vec![
            "train".to_owned(),
            "--config".to_owned(),
            settings(folder, output),
        ]])
        .collect()
}

#[test]
fn kind_56_outputs_that_cannot_be_written_are_refused_before_the_work() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| text(&folder.path().join(name));
    let file = at("file");
    fs::write(&file, "a file").expect("written");
    // Not for train, which makes the folders above its own.
    for (output, fault) in [
        (
            at("none/output"),
            format!("got no folder {}; create it first", at("none")),
        ),
        (at("file/output"), format!("got {file}, which is a file")),
    ] {
        let train = ["train".to_owned()];
        for words in writers(folder.path(), &output) {
            if words[0] != train[0] {
                let run = dla(&words);
                assert_refused(&words.join(" "), &run, &fault);
                assert!(stderr(&run).contains(&output), "{}", stderr(&run));
            }
        }
    }
    let under_a_file = settings(folder.path(), &at("file/output"));
    let run = dla(["train", "--config", &under_a_file]);
    assert_refused("train", &run, &format!("got {file}, which is no folder"));
    // A folder where a file goes, in every spelling.
    let new = format!("{}/", at("new"));
    for output in [at(""), ".".into(), "..".into(), "/".into(), new] {
        for words in files(&output).iter().take(3) {
            let run = dla(words);
            assert_refused(
                &words.join(" "),
                &run,
                "expected a file, got a folder; name a file",
            );
        }
    }
    // What upcycling would put a folder over.
    for (output, fault) in [
        (
            at(""),
            "expected a new folder, got one that exists; name another one",
        ),
        (
            file.clone(),
            "expected a new folder, got a file that exists; name another one",
        ),
    ] {
        let run = dla(["upcycle", "--model", "/none", "--output", &output]);
        assert_refused(&output, &run, fault);
    }
    let run = dla(["train", "--config", &settings(folder.path(), &file)]);
    assert_refused("train", &run, "which is no folder");
    if cfg!(target_os = "linux") {
        for words in writers(folder.path(), "/proc/output") {
            let run = dla(&words);
            assert_refused(
                &words.join(" "),
                &run,
                "expected a folder that can be written",
            );
            assert!(stderr(&run).contains("/proc/output"), "{}", stderr(&run));
        }
    }
    assert_eq!(fs::read(&file).expect("still there"), b"a file");
}

/// Runs `dla` as somebody who has no rights but those of all.
fn as_nobody(words: &[String], folder: &Path, is_root: bool) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dla"));
    if is_root {
        command.uid(NOBODY).gid(NOBODY);
    }
    command.current_dir(folder);
    command.args(words).output().expect("the command starts")
}

#[test]
fn kind_56_places_without_permission_are_refused_before_the_work() {
    let folder = tempfile::tempdir().expect("a folder");
    let set = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode));
    set(folder.path(), 0o777).expect("everybody's");
    let closed = folder.path().join("closed");
    fs::create_dir(&closed).expect("a folder");
    let kept = folder.path().join("kept");
    fs::write(&kept, "kept").expect("written");
    let lines = writers(folder.path(), &text(&closed.join("output")));
    let replace = files(&text(&kept)).into_iter().take(3);
    set(&closed, 0o555).expect("closed");
    set(&kept, 0o444).expect("write-protected");
    // Root may do everything.
    let is_root = fs::write(closed.join("try"), "").is_ok();
    for (words, fault) in lines
        .into_iter()
        .map(|words| (words, "expected a folder that can be written"))
        .chain(replace.map(|words| (words, "expected a file that may be replaced")))
    {
        let run = as_nobody(&words, folder.path(), is_root);
        assert_refused(&words.join(" "), &run, fault);
        assert!(
            stderr(&run).contains("Permission denied"),
            "{}",
            stderr(&run)
        );
    }
    assert_eq!(fs::read(&kept).expect("still there"), b"kept");
    set(&closed, 0o755).expect("to be removed");
}

/// Runs `dla` where no file may be longer than `blocks` of 512 bytes, as on a disk that is full.
#[cfg(target_os = "linux")]
fn on_a_full_disk(words: &[String], blocks: u64) -> Output {
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
    Command::new("sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_dla")])
        .args(words)
        .output()
        .expect("a shell")
}

#[cfg(target_os = "linux")]
#[test]
fn kind_57_the_error_of_a_full_disk_names_the_output() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| text(&folder.path().join(name));
    let model = text(&byte_model(&folder.path().join("model"), 256));
    let upcycled = at("upcycled");
    let run = dla(["upcycle", "--model", &model, "--output", &upcycled]);
    assert!(run.status.success(), "{}", stderr(&run));
    let mut ids = Raw::default();
    ids.tensor("input_ids", "I64", &[1, 16], vec![0; 8 * 16]);
    fs::write(at("ids"), ids.bytes()).expect("written");
    fs::write(at("case"), Raw::case().bytes()).expect("written");
    fs::write(at("text"), "It was the best of times. ".repeat(60)).expect("written");
    let run_settings = fs::read_to_string(settings(folder.path(), &at("run"))).expect("settings");
    let run_settings = run_settings.replace("/none", &at("text"));
    fs::write(folder.path().join("run.toml"), run_settings).expect("settings");
    let output = folder.path().join("place");
    fs::create_dir(&output).expect("a folder");
    let place = text(&output);
    for (line, named, blocks) in [
        (
            format!("op --input {} --output {place}/o", at("case")),
            format!("{place}/o"),
            1,
        ),
        (
            format!(
                "logits --model {model} --ids {} --output {place}/l",
                at("ids")
            ),
            format!("{place}/l"),
            1,
        ),
        (
            format!("upcycle --model {model} --output {place}/u"),
            format!("{place}/u/model.safetensors"),
            16,
        ),
        (
            format!(
                "segment --model {upcycled} --text-file {} --picture {place}/s.html",
                at("text")
            ),
            format!("{place}/s.html"),
            1,
        ),
        (
            format!("train --config {}", at("run.toml")),
            format!("{}/step-00000001/model.safetensors", at("run")),
            4,
        ),
    ] {
        let words: Vec<_> = line
            .split(' ')
            .chain(["--backend", "cpu"])
            .map(str::to_owned)
            .collect();
        let run = on_a_full_disk(&words, blocks);
        assert_eq!(run.status.code(), Some(1), "{line}: {}", stderr(&run));
        let told = format!("error: write, {named}: expected to be written, got File too large");
        // A training run has told of its steps before.
        let complaint = stderr(&run);
        let last = complaint.lines().last().unwrap_or_default();
        assert!(last.starts_with(&told), "{line}: {complaint}");
    }
    let left = output.read_dir().expect("a folder").count();
    assert_eq!(left, 0, "nothing half written");
}
