//! Models with NaN among their weights, as users meet them: every command that reads a text ends with one line.

mod common;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use common::{Raw, byte_model, dla, stderr};
use dla_cli::tensors::{TensorFile, TensorWriter};

/// A model of bytes whose second layer has NaN for its rates.
fn spoilt(folder: &Path) -> PathBuf {
    let model = byte_model(&folder.join("model"), 256);
    let path = model.join("model.safetensors");
    let file = TensorFile::read(&path).expect("a checkpoint");
    let mut out = Raw::default();
    for name in file.names() {
        let tensor = file.require(&name).expect("its own name");
        let shape = tensor.shape().to_vec();
        out.tensor(
            &name,
            "F32",
            &shape,
            tensor.bytes().expect("read").into_owned(),
        );
    }
    out.floats("backbone.layers.1.norm.weight", &[shape(&file)], f32::NAN);
    drop(file);
    fs::write(path, out.bytes()).expect("written");
    model
}

fn shape(file: &TensorFile) -> usize {
    let norm = file.require("backbone.layers.1.norm.weight");
    norm.expect("a norm").shape()[0]
}

#[test]
fn kind_65_every_command_that_reads_a_text_refuses_nan() {
    let folder = tempfile::tempdir().expect("a folder");
    let (model, text) = (spoilt(folder.path()), folder.path().join("text"));
    fs::write(&text, "In the beginning ".repeat(40)).expect("written");
    let ids = folder.path().join("ids.safetensors");
    let mut writer = TensorWriter::default();
    writer.tensor("input_ids", &[1, 3], &[1i64, 2, 3]);
    writer.write(&ids).expect("written");
    let out = folder.path().join("out.safetensors");
    let commands: [&[&str]; 4] = [
        &["generate", "--prompt", "a", "--max-tokens", "1"],
        &["segment", "--text-file", text.to_str().expect("UTF-8")],
        &[
            "eval",
            "--task",
            "text",
            "--lengths",
            "100",
            "--text-file",
            text.to_str().expect("UTF-8"),
        ],
        &[
            "logits",
            "--ids",
            ids.to_str().expect("UTF-8"),
            "--output",
            out.to_str().expect("UTF-8"),
        ],
    ];
    for backend in ["cpu", "gpu"] {
        if backend == "gpu" && std::env::var("DLA_NO_GPU").is_ok_and(|word| word == "1") {
            eprintln!("SKIP: NaN on a device, DLA_NO_GPU=1");
            continue;
        }
        for words in commands {
            let words = words.iter().map(OsString::from);
            let more = ["--backend", backend, "--model"].map(OsString::from);
            let run = dla(words.chain(more).chain([model.clone().into()]));
            let complaint = stderr(&run);
            let last = complaint.lines().last().unwrap_or_default();
            assert_eq!(run.status.code(), Some(1), "{backend}: {complaint}");
            assert!(last.starts_with("error: "), "{backend}: {complaint}");
            for part in ["finite", "NaN", "weights"] {
                assert!(last.contains(part), "{backend}: {complaint}");
            }
        }
    }
    assert!(!out.exists());
}
