//! A token that comes again and again under the delta rule, as a user meets it: every backend and form of the operator
//! decides alike, and a prompt read at once gives what the same prompt gives token by token.

mod common;

use std::path::{Path, PathBuf};

use common::{dla, golden, op_on, stderr};
use dla_cli::tensors::{Element, TensorFile, TensorWriter};

/// The backends to run, each with its words.
fn backends() -> Vec<(&'static str, Vec<String>)> {
    let mut all = vec![("cpu", Vec::new())];
    if std::env::var("DLA_NO_GPU").is_ok_and(|word| word == "1") {
        eprintln!("SKIP: repeated tokens on a GPU, DLA_NO_GPU=1");
    } else {
        let adapter = std::env::var("DLA_ADAPTER").ok();
        let words = adapter
            .into_iter()
            .flat_map(|name| ["--adapter".to_owned(), name]);
        all.push(("gpu", words.collect()));
    }
    all
}

fn fault(name: &str) -> PathBuf {
    golden("faults").join(name)
}

fn read(path: &Path) -> TensorFile {
    TensorFile::read(path).unwrap_or_else(|error| panic!("{error}"))
}

fn values<T: Element>(file: &TensorFile, name: &str) -> Vec<T> {
    let tensor = file.require(name).expect("a tensor");
    tensor.values("", tensor.shape()).expect("its type")
}

fn run_op(backend: &str, input: &Path, output: &Path, more: &[&str]) -> TensorFile {
    let run = op_on(backend, input, output, more);
    assert!(run.status.success(), "{}", stderr(&run));
    read(output)
}

#[test]
fn kind_75_the_operator_decides_alike_in_every_form() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = folder.path().join("output.safetensors");
    let input = fault("delta_repeated_token").join("case.safetensors");
    let expected = read(&fault("delta_repeated_token").join("expected.safetensors"));
    let scores: Vec<f32> = values(&expected, "score");
    for (backend, more) in backends() {
        for chunk in [None, Some("16"), Some("64")] {
            let mut more: Vec<&str> = more.iter().map(String::as_str).collect();
            more.extend(chunk.iter().flat_map(|chunk| ["--chunk", chunk]));
            let got = run_op(backend, &input, &output, &more);
            for array in ["boundary", "merge_at"] {
                let bytes = |file: &TensorFile| {
                    file.require(array)
                        .expect(array)
                        .bytes()
                        .expect("read")
                        .into_owned()
                };
                assert_eq!(
                    bytes(&got),
                    bytes(&expected),
                    "{backend} {chunk:?}, {array}"
                );
            }
            for (at, (got, &expected)) in
                values::<f32>(&got, "score").iter().zip(&scores).enumerate()
            {
                let limit = dla_core::trace::margin(expected.into()) as f32;
                assert!(
                    (got - expected).abs() <= limit,
                    "{backend} {chunk:?}, score {at}: {got}, {expected}"
                );
            }
        }
    }
}

#[test]
fn kind_75_a_prompt_at_once_is_the_prompt_token_by_token() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = folder.path().join("logits.safetensors");
    let case = fault("delta_repeated_token");
    let expected: Vec<f32> = values(&read(&case.join("expected_logits.safetensors")), "logits");
    let largest = expected.iter().fold(0f32, |most, x| most.max(x.abs()));
    for (backend, more) in backends() {
        for prefill in [None, Some("1"), Some("13")] {
            let mut words = vec!["logits".into(), "--backend".into(), backend.into()];
            words.extend(more.iter().map(Into::into));
            words.extend(["--model".into(), case.join("model").into_os_string()]);
            words.extend([
                "--ids".into(),
                case.join("ids.safetensors").into_os_string(),
            ]);
            words.extend(["--output".into(), output.clone().into_os_string()]);
            words.extend(
                prefill
                    .iter()
                    .flat_map(|prefill| ["--prefill".into(), prefill.into()]),
            );
            let run = dla::<std::ffi::OsString>(words);
            assert!(run.status.success(), "{}", stderr(&run));
            let got: Vec<f32> = values(&read(&output), "logits");
            assert_eq!(got.len(), expected.len());
            let error = got
                .iter()
                .zip(&expected)
                .fold(0f32, |most, (a, b)| most.max((a - b).abs()));
            assert!(
                error <= 1e-4 * largest,
                "{backend}, prefill {prefill:?}: {error} of {largest}"
            );
        }
    }
}

/// One file holds one run: its gradients follow the decisions that it reports, also where the chunked form decided
/// otherwise than the recurrence would (here at a tie, a score of 1 at τ = 1).
#[test]
fn kind_76_gradients_follow_the_reported_decisions() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [output, replay, replayed] = ["output", "replay", "replayed"]
        .map(|name| folder.path().join(format!("{name}.safetensors")));
    let input = fault("cpu_chunk_gradients").join("case.safetensors");
    let token_by_token = run_op("cpu", &input, &output, &[]);
    for (backend, more) in backends() {
        let mut more: Vec<&str> = more.iter().map(String::as_str).collect();
        more.extend(["--chunk", "64"]);
        let got = run_op(backend, &input, &output, &more);
        let boundaries: Vec<u8> = values(&got, "boundary");
        if backend == "cpu" {
            assert_ne!(
                boundaries,
                values::<u8>(&token_by_token, "boundary"),
                "a tie that turns"
            );
        }
        write_replay(&replay, &input, &got);
        let expected = run_op("cpu", &replay, &replayed, &[]);
        for array in ["o", "dq", "dk", "dv", "dg", "dbeta", "dlambda"] {
            if expected.get(array).is_none() {
                continue;
            }
            let (got, expected): (Vec<f32>, Vec<f32>) =
                (values(&got, array), values(&expected, array));
            let largest = expected.iter().fold(0f32, |most, x| most.max(x.abs()));
            for (at, (got, expected)) in got.iter().zip(&expected).enumerate() {
                assert!(
                    (got - expected).abs() <= 1e-4 * largest,
                    "{backend}, {array} {at}: {got}, {expected}"
                );
            }
        }
    }
}

/// The case `input` with the decisions of `run`.
fn write_replay(path: &Path, input: &Path, run: &TensorFile) {
    let case = read(input);
    let mut file = TensorWriter::default();
    for name in ["q", "k", "v", "g", "beta", "lambda", "do"] {
        if let Some(tensor) = case.get(name) {
            let values = tensor.values::<f32>("", tensor.shape()).expect("f32");
            file.tensor(name, tensor.shape(), &values);
        }
    }
    for (key, word) in case.words() {
        file.word(key, word);
    }
    let shape = run.require("boundary").expect("boundary").shape().to_vec();
    file.tensor("boundary", &shape, &values::<u8>(run, "boundary"));
    file.tensor("merge_at", &shape, &values::<i32>(run, "merge_at"));
    file.write(path).expect("written");
}
