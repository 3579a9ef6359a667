//! Help, JSON, exit codes and files of the commands, as users meet them.

mod common;

use common::{Raw, assert_refused, dla, op, op_on, stderr, stdout};
use dla_cli::tensors::TensorFile;
use serde_json::Value;

fn json(words: &[&str]) -> Value {
    let run = dla(words);
    assert!(run.status.success(), "{words:?}: {}", stderr(&run));
    serde_json::from_str(&stdout(&run)).unwrap_or_else(|error| panic!("{words:?}: {error}"))
}

/// A folder with a case in it.
fn folder_with(case: &Raw) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let input = folder.path().join("case.safetensors");
    std::fs::write(&input, case.bytes()).expect("a writable folder");
    (folder, input)
}

#[test]
fn every_help_shows_an_example() {
    for words in [
        &["--help"][..],
        &["devices", "--help"],
        &["op", "--help"],
        &["generate", "--help"],
        &["bench", "op", "--help"],
        &["bench", "train", "--help"],
        &["segment", "--help"],
    ] {
        let run = dla(words);
        assert!(run.status.success(), "{words:?}");
        assert!(
            stdout(&run).contains("Example:\n  dla "),
            "{words:?}: {}",
            stdout(&run)
        );
        for option in ["--backend", "--adapter", "--json"] {
            assert!(stdout(&run).contains(option), "{words:?} lacks {option}");
        }
    }
}

#[test]
fn wrong_usage_is_one_line() {
    let wrong: [(&[&str], &str); 16] = [
        (&["sing"], "unrecognized subcommand 'sing'"),
        (&["op"], "--input <FILE> --output <FILE>"),
        (
            &["op", "--input", "a", "--output", "b", "--chunk", "0"],
            "0 is not in 1..=1024; see `dla op --help`",
        ),
        (
            &["op", "--input", "a", "--output", "b", "--chunk", "-1"],
            "-1",
        ),
        (
            &["op", "--input", "a", "--output", "b", "--chunk", "many"],
            "many",
        ),
        (&["--backend", "tpu"], "[possible values: auto, gpu, cpu]"),
        (&["--backend", "cpu", "--adapter", "x"], "--adapter"),
        (&["devices", "--verbose"], "see `dla devices --help`"),
        (
            &["bench"],
            "error: a command is missing: op, decode, prefill, train; see `dla bench --help`",
        ),
        (
            &["bench", "--json"],
            "error: a command is missing: op, decode, prefill, train; see `dla bench --help`",
        ),
        (
            &["opp"],
            "similar subcommand exists: 'op'; see `dla --help`",
        ),
        (
            &["op", "--inptu", "a"],
            "similar argument exists: '--input'",
        ),
        (&["bench", "op", "--runs", "0"], "0 is not in 1.."),
        (&["bench", "op", "--tokens", "0"], "0 is not in 1.."),
        (&["bench", "op", "--chunk", "0"], "0 is not in 1..=1024"),
        (
            &["bench", "op", "--backbone", "x"],
            "[possible values: plain, decay, delta]",
        ),
    ];
    for (words, fault) in wrong {
        assert_refused(&format!("{words:?}"), &dla(words), fault);
    }
}

#[test]
fn left_to_itself_no_command_takes_a_software_adapter() {
    let run = dla(["devices", "--json"]);
    assert!(run.status.success(), "{}", stderr(&run));
    let devices: Value = serde_json::from_str(&stdout(&run)).expect("JSON");
    let adapters = devices["adapters"].as_array().expect("a list");
    for adapter in adapters.iter().filter(|adapter| adapter["type"] == "Cpu") {
        assert_eq!(adapter["chosen"], false, "{adapter}");
    }
    let (folder, input) = folder_with(&Raw::case());
    let output = folder.path().join("out.safetensors");
    let run = op_on("auto", &input, &output, &["--json"]);
    let report: Value = serde_json::from_str(&stdout(&run)).expect("JSON");
    let on_cpu = devices["cpu"]["chosen"] == true;
    assert_eq!(report["backend"] == "cpu", on_cpu, "{report}");
    if on_cpu {
        let notes = stderr(&run);
        let why = ["no adapter found", "the only adapter is software"];
        assert!(why.iter().any(|why| notes.contains(why)), "{notes}");
    }
}

#[test]
fn an_input_that_is_not_there_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = folder.path().join("out.safetensors");
    assert_refused(
        "missing",
        &op(&folder.path().join("none"), &output, &[]),
        "a readable file",
    );
    assert_refused("a folder", &op(folder.path(), &output, &[]), "regular file");
    assert!(!output.exists());
}

#[test]
fn an_output_that_cannot_be_written_is_refused_at_once() {
    let (folder, input) = folder_with(&Raw::case());
    let nowhere = folder.path().join("none/out.safetensors");
    assert_refused("no folder", &op(&input, &nowhere, &[]), "existing folder");
    let run = op(&input, folder.path(), &[]);
    assert_refused("a folder", &run, "expected a file, got a folder");
}

#[test]
fn a_refused_case_leaves_the_old_output() {
    let mut case = Raw::case();
    case.remove("lambda");
    let (folder, input) = folder_with(&case);
    let output = folder.path().join("out.safetensors");
    std::fs::write(&output, "old").expect("a writable folder");
    assert_refused("no lambda", &op(&input, &output, &[]), "lambda");
    assert_eq!(std::fs::read(&output).expect("still there"), b"old");
}

#[test]
fn the_output_may_replace_the_input() {
    let (_folder, input) = folder_with(&Raw::case());
    let run = op(&input, &input, &[]);
    assert!(run.status.success(), "{}", stderr(&run));
    let file = TensorFile::read(&input).unwrap_or_else(|error| panic!("{error}"));
    assert!(file.get("o").is_some() && file.get("q").is_none());
}

#[test]
fn a_split_sequence_gives_the_same_as_the_whole() {
    // Three equal tokens of one state; two of them from a cache that already holds one.
    let (folder, input) = folder_with(&Raw::case());
    let output = folder.path().join("out.safetensors");
    let states = |case: &Raw| {
        std::fs::write(&input, case.bytes()).expect("a writable folder");
        let run = op(&input, &output, &[]);
        assert!(run.status.success(), "{}", stderr(&run));
        let file = TensorFile::read(&output).unwrap_or_else(|error| panic!("{error}"));
        let tensor = file.require("states").expect("an output");
        tensor.values::<f32>("", tensor.shape()).expect("f32")
    };
    let whole = states(&Raw::case());
    let mut shorter = Raw::case();
    shorter.integers("lengths", &[1], 1);
    let first = states(&shorter);
    let mut rest = Raw::case();
    rest.integers("lengths", &[1], 2);
    let bytes = first.iter().flat_map(|x| x.to_le_bytes()).collect();
    rest.tensor("h0", "F32", &[1, 2, 2, 2, 2], bytes);
    let live = [1i32, 0, 1, 0]
        .iter()
        .flat_map(|n| n.to_le_bytes())
        .collect();
    rest.tensor("n0", "I32", &[1, 2, 2], live);
    rest.floats("info0", &[1, 2, 2], 0.0);
    assert_eq!(states(&rest), whole);
}

#[test]
fn gradients_have_their_inputs_shapes() {
    let mut case = Raw::case();
    case.floats("do", &[1, 3, 2, 2], 1.0);
    case.floats("h0", &[1, 2, 2, 2, 2], 0.0);
    case.integers("n0", &[1, 2, 2], 0);
    case.floats("info0", &[1, 2, 2], 0.0);
    let (folder, input) = folder_with(&case);
    let output = folder.path().join("out.safetensors");
    let run = op(&input, &output, &[]);
    assert!(run.status.success(), "{}", stderr(&run));
    let file = TensorFile::read(&output).unwrap_or_else(|error| panic!("{error}"));
    for (name, _, shape, _) in &case.tensors {
        let gradient = match name.as_str() {
            "q" => "dq",
            "k" => "dk",
            "v" => "dv",
            "g" => "dg",
            "lambda" => "dlambda",
            "h0" => "dh0",
            _ => continue,
        };
        let tensor = file
            .require(gradient)
            .unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(tensor.shape(), shape, "{gradient}");
    }
    assert_eq!(
        file.require("dtau").map(|tensor| tensor.shape()).ok(),
        Some(&[2][..])
    );
    assert!(file.get("dbeta").is_none(), "decay has no beta");
}

#[test]
fn half_precision_inputs_are_widened() {
    let mut halves = Raw::case();
    for (name, dtype, _, bytes) in &mut halves.tensors {
        if ["q", "k", "v"].contains(&name.as_str()) {
            let (values, _) = bytes.as_chunks::<4>();
            let narrow = |value: &[u8; 4]| half::f16::from_f32(f32::from_le_bytes(*value));
            *bytes = values
                .iter()
                .flat_map(|value| narrow(value).to_le_bytes())
                .collect();
            *dtype = "F16";
        }
    }
    let written = |case: &Raw| {
        let (folder, input) = folder_with(case);
        let output = folder.path().join("out.safetensors");
        let run = op(&input, &output, &[]);
        assert!(run.status.success(), "{}", stderr(&run));
        std::fs::read(output).expect("an output")
    };
    assert_eq!(written(&halves), written(&Raw::case()));
}

#[test]
fn unaligned_tensors_are_read() {
    let mut odd = Raw::case();
    odd.word("format", "pt");
    let header = odd.header();
    let padded = (0..8).map(|pad| common::file(&(header.clone() + &" ".repeat(pad)), &odd.data()));
    for bytes in padded {
        let (folder, input) = folder_with(&odd);
        std::fs::write(&input, bytes).expect("a writable folder");
        let run = op(&input, &folder.path().join("out.safetensors"), &[]);
        assert!(run.status.success(), "{}", stderr(&run));
    }
}

#[test]
fn no_tokens_give_empty_outputs() {
    let mut empty = Raw::case();
    for (_, _, shape, bytes) in &mut empty.tensors {
        shape[1] = 0;
        bytes.clear();
    }
    let (folder, input) = folder_with(&empty);
    let run = op(&input, &folder.path().join("out.safetensors"), &[]);
    assert!(run.status.success(), "{}", stderr(&run));
}

#[test]
fn json_is_for_machines() {
    let (folder, input) = folder_with(&Raw::case());
    let output = folder.path().join("out.safetensors");
    let run = op(&input, &output, &["--json", "--chunk", "2"]);
    let report: Value = serde_json::from_str(&stdout(&run)).expect("JSON");
    assert_eq!(report["backend"], "cpu");
    assert_eq!(report["chunk"], 2);
    assert_eq!(report["dims"]["tokens"], 3);
    assert_eq!(report["opened"], 2);
    assert_eq!(report["live"], serde_json::json!([1, 1]));

    let devices = json(&["devices", "--backend", "cpu", "--json"]);
    assert_eq!(devices["cpu"]["chosen"], true);
    for adapter in devices["adapters"].as_array().expect("a list") {
        let (features, kernels) = (&adapter["features"], &adapter["kernels"]);
        let f16 = features.as_array().expect("a list").contains(&"f16".into());
        assert_eq!(kernels["f16"], f16, "{adapter}");
        assert!(kernels["subgroup"].is_u64(), "{adapter}");
        assert!(kernels["cooperative_matrix"].is_boolean(), "{adapter}");
    }
}

#[test]
fn the_demonstration_goes_on_with_a_text_and_finds_a_needle() {
    let run = dla(["--backend", "cpu"]);
    assert!(run.status.success(), "{}", stderr(&run));
    let page = stdout(&run);
    assert!(!page.contains('\u{1b}'), "no colours away from a terminal");
    for shown in ["[1 In the beginning", "7319408", "A needle in a haystack"] {
        assert!(page.contains(shown), "{shown} in\n{page}");
    }
    let story = json(&["--backend", "cpu", "--json"]);
    let answer = story["needle"]["answer"].as_str().expect("an answer");
    assert_eq!(
        answer.trim_end_matches('.'),
        "7319408",
        "the model was asked"
    );
    let continued = story["continued"].as_str().expect("a text");
    assert_eq!(continued.len(), 260);
    let words = continued.split_whitespace().collect::<Vec<_>>();
    let known = ["the", "and", "of", "And", "that", "to", "in", "God", "LORD"];
    let common = words.iter().filter(|word| known.contains(word)).count();
    assert!(
        common * 6 > words.len(),
        "reads like its sources: {continued}"
    );
}

#[test]
fn gradients_come_under_every_schedule() {
    for schedule in ["dynamic", "single", "fixed", "fenwick", "offline"] {
        let mut case = Raw::case();
        case.word("schedule", schedule);
        case.word("block", "2");
        case.floats("lambda", &[1, 3, 2, 3], 1.0);
        case.floats("do", &[1, 3, 2, 2], 1.0);
        let (folder, input) = folder_with(&case);
        let output = folder.path().join("out.safetensors");
        let run = op(&input, &output, &[]);
        assert!(run.status.success(), "{schedule}: {}", stderr(&run));
        let file = TensorFile::read(&output).unwrap_or_else(|error| panic!("{schedule}: {error}"));
        let shape = file.get("dtau").map(|tau| tau.shape().to_vec());
        assert_eq!(shape, Some(vec![2]), "{schedule}: one for each head");
    }
}
