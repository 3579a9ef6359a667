//! Every golden case through the command: on the CPU token by token and in chunks, and on a GPU.

mod common;

use std::collections::BTreeSet;
use std::path::Path;

use common::{golden, op_on, stderr};
use dla_cli::tensors::{Element, Tensor, TensorFile, TensorWriter};
use safetensors::Dtype;

/// Largest error, relative to the largest magnitude of the array.
const TOLERANCE: f64 = 1e-4;

/// In this case all densities are equal up to rounding, so only replayed decisions can be compared.
const TIES: &str = "ties";
/// In these one decision or more is a near tie, which a GPU's rounding may turn.
const NEAR_TIES: [&str; 2] = [TIES, "long_decay"];

const SHAPES: [(&str, &str, Dtype); 8] = [
    ("o", "B T H Dv", Dtype::F32),
    ("score", "B T H", Dtype::F32),
    ("boundary", "B T H", Dtype::U8),
    ("merge_at", "B T H", Dtype::I32),
    ("count", "B T H", Dtype::I32),
    ("states", "B H K Dk Dv", Dtype::F32),
    ("n", "B H K", Dtype::I32),
    ("info", "B H K", Dtype::F32),
];

#[test]
fn golden_cases_token_by_token() {
    every_case("cpu", &[], &[TIES]);
}

#[test]
fn golden_cases_in_chunks_of_16() {
    every_case("cpu", &["--chunk", "16"], &[TIES]);
}

#[test]
fn golden_cases_in_chunks_of_64() {
    every_case("cpu", &["--chunk", "64"], &[TIES]);
}

#[test]
fn golden_cases_on_a_gpu() {
    if std::env::var("DLA_NO_GPU").is_ok_and(|word| word == "1") {
        eprintln!("SKIP: golden cases on a GPU, DLA_NO_GPU=1");
        return;
    }
    let adapter = std::env::var("DLA_ADAPTER").ok();
    let more: Vec<&str> = adapter
        .iter()
        .flat_map(|name| ["--adapter", name])
        .collect();
    every_case("gpu", &more, &NEAR_TIES);
}

#[test]
fn golden_gradients_on_the_cpu() {
    every_gradient("cpu", &[]);
}

#[test]
fn golden_gradients_on_a_gpu() {
    if std::env::var("DLA_NO_GPU").is_ok_and(|word| word == "1") {
        eprintln!("SKIP: golden gradients on a GPU, DLA_NO_GPU=1");
        return;
    }
    let adapter = std::env::var("DLA_ADAPTER").ok();
    let more: Vec<&str> = adapter
        .iter()
        .flat_map(|name| ["--adapter", name])
        .collect();
    every_gradient("gpu", &more);
}

fn every_gradient(backend: &str, more: &[&str]) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let arrays = ["o", "dq", "dk", "dv", "dg", "dbeta", "dlambda", "dtau"];
    for name in ["decay", "delta"] {
        let input = golden("grad").join(format!("{name}.safetensors"));
        let expected = read(&golden("grad").join(format!("{name}.expected.safetensors")));
        let output = run(backend, &input, folder.path(), more);
        for array in arrays {
            let (Some(expected), Some(got)) = (expected.get(array), output.get(array)) else {
                assert!(
                    expected.get(array).is_none() && output.get(array).is_none(),
                    "{array}"
                );
                continue;
            };
            assert_eq!(got.shape(), expected.shape(), "{name}/{array}");
            compare(
                &format!("{name}/{array}"),
                &numbers(got),
                &numbers(expected),
            );
        }
        assert!(output.get("dh0").is_none(), "{name} starts from nothing");
    }
}

/// Every case, and again with its expected decisions replayed; only that for those in `replayed_only`.
fn every_case(backend: &str, more: &[&str], replayed_only: &[&str]) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let names = case_names();
    assert_eq!(names.len(), 11, "{names:?}");
    for name in names {
        let input = golden("op").join(format!("{name}.safetensors"));
        let expected = read(&golden("op").join(format!("{name}.expected.safetensors")));
        if !replayed_only.contains(&&*name) {
            let output = run(backend, &input, folder.path(), more);
            check(&name, &output, &expected, &input);
        }
        if expected.get("boundary").is_some() {
            let replay = folder.path().join("replay.safetensors");
            write_replay(&replay, &input, &expected);
            let output = run(backend, &replay, folder.path(), more);
            check(&format!("{name} replayed"), &output, &expected, &input);
        }
    }
}

fn case_names() -> BTreeSet<String> {
    let files =
        std::fs::read_dir(golden("op")).expect("the golden folder is part of the repository");
    let name = |file: std::io::Result<std::fs::DirEntry>| {
        let name = file
            .expect("a readable folder")
            .file_name()
            .into_string()
            .ok()?;
        let name = name.strip_suffix(".safetensors")?;
        (!name.ends_with(".expected")).then(|| name.to_owned())
    };
    files.filter_map(name).collect()
}

fn run(backend: &str, input: &Path, folder: &Path, more: &[&str]) -> TensorFile {
    let output = folder.join("out.safetensors");
    let run = op_on(backend, input, &output, more);
    assert!(
        run.status.success(),
        "{}: {}",
        input.display(),
        stderr(&run)
    );
    read(&output)
}

fn read(path: &Path) -> TensorFile {
    TensorFile::read(path).unwrap_or_else(|error| panic!("{error}"))
}

/// The case with the decisions that are expected of it.
fn write_replay(path: &Path, input: &Path, expected: &TensorFile) {
    let case = read(input);
    let mut file = TensorWriter::default();
    for (key, value) in case.words() {
        file.word(key, value);
    }
    for name in ["q", "k", "v", "g", "beta", "lambda"] {
        copy::<f32>(&case, name, &mut file);
    }
    copy::<u8>(expected, "boundary", &mut file);
    copy::<i32>(expected, "merge_at", &mut file);
    file.write(path).unwrap_or_else(|error| panic!("{error}"));
}

fn copy<E: Element>(from: &TensorFile, name: &'static str, to: &mut TensorWriter) {
    if let Some(tensor) = from.get(name) {
        let values = tensor
            .values::<E>("", tensor.shape())
            .expect("its own shape");
        to.tensor(name, tensor.shape(), &values);
    }
}

/// Every output has the type and shape that the documentation promises, and the expected values.
fn check(name: &str, output: &TensorFile, expected: &TensorFile, input: &Path) {
    let case = read(input);
    assert_eq!(output.words()["non_finite"], "0", "{name}");
    for (array, letters, dtype) in SHAPES {
        let tensor = output
            .require(array)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(tensor.dtype(), dtype, "{name}/{array}");
        assert_eq!(tensor.shape(), shape(letters, &case), "{name}/{array}");
        if let Some(expected) = expected.get(array) {
            assert_eq!(expected.shape(), tensor.shape(), "{name}/{array}");
            compare(
                &format!("{name}/{array}"),
                &numbers(tensor),
                &numbers(expected),
            );
        }
    }
}

/// Integers are equal, floats within the tolerance of the array's largest value; NaN is never close.
fn compare(name: &str, got: &[f64], expected: &[f64]) {
    let scale = expected.iter().fold(1.0, |most: f64, x| most.max(x.abs()));
    for (i, (got, expected)) in got.iter().zip(expected).enumerate() {
        let close = (got - expected).abs() <= TOLERANCE * scale;
        assert!(
            close,
            "{name}[{i}]: {got}, expected {expected} within {TOLERANCE:e} of {scale}"
        );
    }
}

/// A tensor's values; integers so large that 1e-4 of the scale would hide a difference do not occur.
fn numbers(tensor: Tensor<'_>) -> Vec<f64> {
    let shape = tensor.shape();
    let wide = |values: Vec<i32>| values.into_iter().map(f64::from).collect();
    match tensor.dtype() {
        Dtype::F32 => {
            let values = tensor.values::<f32>("", shape).expect("its own type");
            values.into_iter().map(f64::from).collect()
        }
        Dtype::I32 => wide(tensor.values("", shape).expect("its own type")),
        _ => {
            let values = tensor.values::<u8>("", shape).expect("f32, i32 or u8");
            wide(values.into_iter().map(i32::from).collect())
        }
    }
}

/// The sizes that letters stand for in a case.
fn shape(letters: &str, case: &TensorFile) -> Vec<usize> {
    let size = |letter| {
        let (tensor, axis) = match letter {
            "B" => ("q", 0),
            "T" => ("q", 1),
            "Dk" => ("q", 3),
            "H" => ("v", 2),
            "Dv" => ("v", 3),
            _ => ("lambda", 3),
        };
        case.require(tensor).expect("every case has it").shape()[axis]
    };
    letters.split(' ').map(size).collect()
}
