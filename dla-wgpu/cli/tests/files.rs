//! Files that are no files: what has no end is not read, and nothing waits for who writes into a pipe.
#![cfg(unix)]

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{assert_refused, byte_model, dla, op, stderr};

const FAULT: &str = "expected a regular file";

/// A device without an end, and a pipe that nobody writes into, in `folder`.
fn endless(folder: &Path) -> [PathBuf; 2] {
    let pipe = folder.join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo is there").success());
    [PathBuf::from("/dev/zero"), pipe]
}

fn generate(model: &Path, more: &[&str]) -> std::process::Output {
    let words = ["generate", "--backend", "cpu", "--max-tokens", "1"].map(Into::into);
    let model = ["--model".as_ref(), model.as_os_str()].map(Into::into);
    let more = more.iter().map(Into::into);
    dla::<std::ffi::OsString>(words.into_iter().chain(model).chain(more))
}

#[test]
fn arrays_are_regular_files() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = folder.path().join("out.safetensors");
    for input in endless(folder.path()) {
        assert_refused("a case", &op(&input, &output, &[]), FAULT);
    }
    assert_refused("a folder", &op(folder.path(), &output, &[]), FAULT);
}

#[test]
fn every_file_of_a_model_is_a_regular_one() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let endless = endless(folder.path());
    let files = [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ];
    for (i, endless) in endless.iter().enumerate() {
        for (j, name) in files.into_iter().enumerate() {
            let model = byte_model(&folder.path().join(format!("{i}-{j}")), 256);
            if name == "tokenizer_config.json" {
                let tokenizer = r#"{"model":{"type":"BPE","vocab":{"a":0},"merges":[]}}"#;
                fs::write(model.join("tokenizer.json"), tokenizer).expect("written");
                let run = generate(&model, &["--prompt", "a"]);
                assert!(run.status.success(), "{}", stderr(&run));
            }
            let path = model.join(name);
            if path.exists() {
                fs::remove_file(&path).expect("removed");
            }
            symlink(endless, &path).expect("a link");
            let run = generate(&model, &["--prompt", "a"]);
            assert_refused(name, &run, FAULT);
        }
    }
}

#[test]
fn a_prompt_may_come_through_a_pipe_but_must_end() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let model = byte_model(&folder.path().join("model"), 256);
    let model = model.to_str().expect("a path");
    for (words, option) in [
        ("generate --max-tokens 4 --temperature 0", "--prompt-file"),
        ("segment", "--text-file"),
    ] {
        let text = folder.path().join("text");
        fs::write(&text, "a text").expect("written");
        let run = |path: &Path| {
            let more = ["--backend", "cpu", "--json", "--model", model, option];
            let path = path.to_str().expect("a path");
            dla(words.split(' ').chain(more).chain([path]))
        };
        let [_, pipe] = endless(&fresh(folder.path(), words));
        let writer = std::thread::spawn({
            let pipe = pipe.clone();
            move || fs::write(pipe, "a text")
        });
        let (piped, read) = (run(&pipe), run(&text));
        writer.join().expect("a writer").expect("written");
        assert!(piped.status.success(), "{}", stderr(&piped));
        let answer = |run: &std::process::Output| -> serde_json::Value {
            serde_json::from_slice(&run.stdout).expect("JSON")
        };
        for told in ["ids", "segmentations"] {
            assert_eq!(answer(&piped)[told], answer(&read)[told], "{words}: {told}");
        }
        assert_refused(words, &run("/dev/zero".as_ref()), "a file of at most");
        assert_refused(words, &run(folder.path()), "a folder");
    }
}

/// A new folder in `folder`.
fn fresh(folder: &Path, words: &str) -> PathBuf {
    let path = folder.join(words.replace(' ', "-"));
    fs::create_dir(&path).expect("a new folder");
    path
}

#[test]
fn texts_and_settings_are_regular_files() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let model = byte_model(&folder.path().join("model"), 256);
    let model = model.to_str().expect("a path");
    for path in endless(folder.path()) {
        let path = path.to_str().expect("a path");
        let words = "eval --task text --backend cpu --text-file";
        let run = dla(words.split(' ').chain([path, "--model", model]));
        assert_refused("eval", &run, FAULT);
        let run = dla(["train", "--backend", "cpu", "--config", path]);
        assert_refused("train", &run, FAULT);
    }
}
