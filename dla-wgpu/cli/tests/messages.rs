//! What a new user mistypes, and what the command answers: the option or the file that is wrong, by the name the user knows.

mod common;

use std::fs;
use std::path::Path;

use common::{assert_refused, byte_model, dla, stderr, stdout};

fn text(path: &Path) -> String {
    path.display().to_string()
}

#[test]
fn kind_59_numbers_that_are_none_are_named_with_their_option() {
    let none = "--model /none";
    for (line, fault) in [
        (
            format!("generate {none} --prompt a --max-tokens 1 --seed -1"),
            "invalid value '-1' for '--seed <N>': expected a whole number, 0 or more",
        ),
        (
            format!("generate {none} --prompt a --max-tokens -5"),
            "invalid value '-5' for '--max-tokens <N>': expected a whole number, 0 or more",
        ),
        (
            format!("generate {none} --prompt a --max-tokens 1 --top-k 1.5"),
            "invalid value '1.5' for '--top-k <N>': expected a whole number, 0 or more",
        ),
        (
            format!("generate {none} --prompt a --max-tokens 1 --temperature hot"),
            "invalid value 'hot' for '--temperature <X>': expected a number",
        ),
        (
            format!("eval {none} --task mqar --seed -1"),
            "invalid value '-1' for '--seed <SEED>': expected a whole number, 0 or more",
        ),
        (
            format!("eval {none} --task mqar --pairs 4,-8"),
            "invalid value '-8' for '--pairs <P>': expected a whole number, 0 or more",
        ),
        (
            format!("segment {none} --text-file a --layer -1"),
            "invalid value '-1' for '--layer <N>': expected a whole number, 0 or more",
        ),
        (
            format!("segment {none} --text-file a --head 99999999999999999999"),
            "for '--head <N>': expected a smaller number",
        ),
        (
            format!("upcycle {none} --output a --capacity 65"),
            "invalid value '65' for '--capacity <K>': 65 is not in 1..=64",
        ),
        (
            format!("upcycle {none} --output a --tau nan"),
            "invalid value 'nan' for '--tau <X>': expected a number",
        ),
        (
            "bench op --tau high".to_owned(),
            "invalid value 'high' for '--tau <TAU>': expected a number",
        ),
    ] {
        assert_refused(&line, &dla(line.split(' ')), fault);
    }
}

#[test]
fn kind_59_defaults_are_shown_as_they_are_typed() {
    let help = stdout(&dla(["eval", "--help"]));
    assert!(help.contains("[default: 4,8,16]"), "{help}");
}

/// Settings of a run, of which one is `wrong`: the error names it as the file does.
#[test]
fn kind_59_settings_are_named_as_the_file_names_them() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(
        folder.path().join("text.txt"),
        "It was the best of times. ".repeat(60),
    )
    .expect("a text");
    let mamba2 =
        "family = \"mamba2\"\nhidden = 8\nlayers = 1\nheads = 2\nhead_dim = 8\nstate = 4\n";
    let delta = "family = \"gated_deltanet\"\nhidden = 8\nlayers = 1\nheads = 2\nhead_dim = 8\nintermediate = 8\n";
    let path = folder.path().join("run.toml");
    for (model, more, told) in [
        (
            mamba2,
            "[model.dla]\ncapacity = 65",
            "model.dla.capacity: expected 1 to 64, got 65",
        ),
        (
            mamba2,
            "[model.dla]\ncapacity = 0",
            "model.dla.capacity: expected 1 to 1048576, got 0",
        ),
        (
            mamba2,
            "[model.dla]\nnorm = \"l2\"",
            "model.dla.norm: expected rms|none, got l2",
        ),
        (
            mamba2,
            "[model.dla]\nmerge = \"x\"",
            "model.dla.merge: expected density|ward|oldest, got x",
        ),
        (
            mamba2,
            "[model.dla]\ngate = \"x\"",
            "model.dla.gate: expected hard|straight-through|soft, got x",
        ),
        (
            mamba2,
            "[model.dla]\nepsilon = -1",
            "model.dla.epsilon: expected at least 0",
        ),
        (
            mamba2,
            "[model.dla]\ntheta = -0.1",
            "model.dla.theta: expected above 0",
        ),
        (
            mamba2,
            "[model.dla]\ntheta_end = 0.0",
            "model.dla.theta_end: expected above 0",
        ),
        (
            mamba2,
            "[optimiser]\nrate = -1",
            "optimiser.rate: expected finite and at least 0, got -1",
        ),
        (
            mamba2,
            "[optimiser]\nleast_rate = 5",
            "optimiser.least_rate: expected at most the largest",
        ),
        (
            mamba2,
            "[optimiser]\nwarmup = 50",
            "optimiser.warmup: expected at most the 2 steps, got 50",
        ),
        (
            mamba2,
            "[optimiser]\nbeta1 = 1.0",
            "optimiser.beta1: expected 0 to below 1, got 1",
        ),
        (
            mamba2,
            "[optimiser]\nclip = 0",
            "optimiser.clip: expected above 0, got 0",
        ),
        (
            &mamba2.replace("state = 4", "state = 300"),
            "",
            "model.state: expected 1 to 256, got 300",
        ),
        (
            &mamba2.replace("state = 4", "state = 0"),
            "",
            "model.state: expected 1 to 1048576, got 0",
        ),
        (
            &mamba2.replace("heads = 2", "heads = 0"),
            "",
            "model.heads: expected 1 to 1048576, got 0",
        ),
        (
            &mamba2.replace("hidden = 8", "hidden = 0"),
            "",
            "model.hidden: expected 1 to 1048576, got 0",
        ),
        (
            &mamba2.replace("head_dim = 8", "head_dim = 600"),
            "",
            "model.head_dim: expected 1 to 512, got 600",
        ),
        (
            &mamba2.replace("state = 4", "state = 4\ngroups = 3"),
            "",
            "model.heads: expected a multiple of the 3",
        ),
        (
            &delta.replace("head_dim = 8", "head_dim = 300"),
            "",
            "model.head_dim: expected 1 to 256, got 300",
        ),
        (
            &delta.replace("head_dim = 8", "head_dim = 8\nkey_dim = 300"),
            "",
            "model.key_dim: expected 1 to 256, got 300",
        ),
        (
            &delta.replace("heads = 2", "heads = 2\nvalue_heads = 3"),
            "",
            "model.value_heads: expected a multiple of the 2",
        ),
    ] {
        let settings = format!(
            "steps = 2\noutput = {:?}\n[model]\n{model}\n[data]\ntask = \"text\"\nfiles = [{:?}]\nlength = 8\n{more}\n",
            folder.path().join("out"),
            folder.path().join("text.txt"),
        );
        fs::write(&path, settings).expect("settings");
        let run = dla(["train", "--backend", "cpu", "--config", &text(&path)]);
        assert_refused(told, &run, &format!("error: train, {told}"));
        assert!(!stderr(&run).contains("config.json"), "{}", stderr(&run));
    }
}

/// Files and options that are no such thing as the command needs, one of each kind.
#[test]
fn kind_59_what_is_swapped_or_missing_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = text(&byte_model(&folder.path().join("model"), 256));
    let at = |name: &str| text(&folder.path().join(name));
    let (weights, none) = (format!("{model}/model.safetensors"), at("none"));
    fs::write(at("empty"), "").expect("written");
    fs::write(at("short"), "twenty-eight bytes of a text").expect("written");
    fs::write(at("case"), common::Raw::case().bytes()).expect("written");
    let settings = |files: &str| {
        format!(
            "steps = 2\noutput = {:?}\n[model]\nfamily = \"mamba2\"\nhidden = 8\nlayers = 1\nheads = 2\n\
             head_dim = 8\nstate = 4\n[data]\ntask = \"text\"\nfiles = {files}\nlength = 8\n",
            at("out")
        )
    };
    fs::write(at("short.toml"), settings(&format!("[{:?}]", at("short")))).expect("written");
    fs::write(at("word.toml"), settings("\"a.txt\"")).expect("written");
    fs::write(
        at("minus.toml"),
        settings("[]").replace("hidden = 8", "hidden = -8"),
    )
    .expect("written");
    let generate = format!("generate --model {model} --prompt a --max-tokens 1");
    let eval = format!("eval --backend cpu --model {model}");
    let logits = format!("logits --backend cpu --model {model} --ids {none}");
    for (line, fault) in [
        (
            format!("inspect --model {weights}"),
            format!("load, {weights}: expected a model directory, which holds config.json, got a file"),
        ),
        (
            format!("inspect --model {none}"),
            format!("load, {none}: expected a model directory, which holds config.json, got nothing"),
        ),
        (format!("{generate} --top-p 2"), "generate, --top-p: expected above 0 and at most 1, got 2".into()),
        (format!("{generate} --min-p -1"), "generate, --min-p: expected 0 to 1, got -1".into()),
        (format!("{generate} --temperature -1"), "generate, --temperature: expected a finite".into()),
        (format!("{generate} --repetition-penalty 0"), "generate, --repetition-penalty: expected".into()),
        (format!("{generate} --stop="), "generate, --stop: expected some text, got an empty one".into()),
        (
            format!("{logits} --output {none} --decisions {none}"),
            format!("logits, --decisions: expected another file than --output, got {none}"),
        ),
        (
            format!("{eval} --task mqar"),
            "eval, --lengths: expected less than the 256 ids of the model's vocabulary, got 256".into(),
        ),
        (format!("{eval} --task mqar --lengths 31"), "eval, --lengths: expected an even number".into()),
        (format!("{eval} --task mqar --lengths 32 --pairs 0"), "eval, --pairs: expected 1 to 8".into()),
        (format!("{eval} --task niah --kinds foo"), "eval, --kinds: expected single_1|".into()),
        (
            format!("{eval} --task text --text-file {}", at("empty")),
            "eval, --text-file: expected files of text".into(),
        ),
        (
            format!("train --config {}", at("short.toml")),
            "train, data.files: expected a text whose part that is held out has at least 2 tokens, got 1".into(),
        ),
        (
            format!("train --config {}", at("word.toml")),
            "got invalid type: string \"a.txt\", expected a list, as in".into(),
        ),
        (format!("train --config {}", at("minus.toml")), "expected a whole number of at least 0".into()),
        ("bench op --key-dim 999".into(), "bench op, --key-dim: expected 1 to 256, got 999".into()),
        ("bench op --heads 0".into(), "bench op, --heads: expected at least 1, got 0".into()),
    ] {
        assert_refused(&line, &dla(line.split(' ')), &fault);
    }
}

/// README: whatever runs a model takes `--weights`.
#[test]
fn kind_59_weights_are_taken_wherever_a_model_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = text(&byte_model(&folder.path().join("model"), 256));
    let file = folder.path().join("text.txt");
    fs::write(&file, "a text of some words").expect("written");
    let file = text(&file);
    for line in [
        "--weights int8 --backend cpu --json".to_owned(),
        format!("generate --weights f16 --backend cpu --model {model} --prompt a --max-tokens 1"),
        format!("segment --weights f16 --backend cpu --model {model} --text-file {file}"),
        format!("eval --weights f16 --backend cpu --model {model} --task text --text-file {file}"),
    ] {
        let run = dla(line.split(' '));
        assert!(run.status.success(), "{line}: {}", stderr(&run));
    }
    for line in [
        "logits --help",
        "bench decode --help",
        "bench prefill --help",
    ] {
        let help = stdout(&dla(line.split(' ')));
        assert!(help.contains("--weights"), "{line}: {help}");
    }
    let line = format!("--weights f16 generate --model {model} --prompt a --max-tokens 1");
    assert_refused(
        &line,
        &dla(line.split(' ')),
        "--weights: expected it after the command",
    );
    assert_refused(
        "op",
        &dla(["op", "--weights", "f16"]),
        "unexpected argument '--weights'",
    );
}
