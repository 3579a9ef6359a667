//! `dla generate`, as users run it.

mod common;

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use common::{assert_refused, byte_model, dla, golden, stderr, stdout};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A model of bytes in a folder of its own.
fn model() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let model = byte_model(&folder.path().join("model"), 256);
    (folder, model)
}

fn generate(model: &Path, more: &[&str]) -> Output {
    let words = ["generate", "--backend", "cpu", "--model"].map(OsString::from);
    let words = words.into_iter().chain([model.into()]);
    dla(words.chain(more.iter().map(Into::into)))
}

/// Words after the prompt "The grass is green." and 40 tokens.
fn grass(model: &Path, more: &[&str]) -> Output {
    let words = ["--prompt", "The grass is green.", "--max-tokens", "40"];
    generate(model, &[&words, more].concat())
}

/// The text of a run that worked, without the line's end that follows it.
fn text(run: &Output) -> String {
    assert!(run.status.success(), "{}", stderr(run));
    let text = stdout(run);
    text.strip_suffix('\n').expect("a line's end").to_owned()
}

fn report(run: &Output) -> Value {
    assert!(run.status.success(), "{}", stderr(run));
    serde_json::from_str(&stdout(run)).expect("one JSON object")
}

fn ids(report: &Value) -> Vec<u32> {
    serde_json::from_value(report["ids"].clone()).expect("ids")
}

#[test]
fn equal_options_give_equal_text_and_seeds_matter() {
    let (_folder, model) = model();
    for same in [&["--temperature", "0"][..], &["--seed", "5"], &[]] {
        assert_eq!(
            text(&grass(&model, same)),
            text(&grass(&model, same)),
            "{same:?}"
        );
    }
    let seeds = ["0", "1", "2", "3"].map(|seed| text(&grass(&model, &["--seed", seed])));
    assert_eq!(
        seeds.iter().collect::<HashSet<_>>().len(),
        seeds.len(),
        "{seeds:?}"
    );
    assert_eq!(text(&grass(&model, &[])), seeds[0], "the default seed is 0");
    let greedy = |more: &[&str]| ids(&report(&grass(&model, &[&["--json"], more].concat())));
    let want = greedy(&["--temperature", "0"]);
    assert_eq!(greedy(&["--temperature", "0", "--seed", "9"]), want);
    assert_eq!(greedy(&["--top-k", "1"]), want);
    assert_eq!(greedy(&["--top-p", "0.000001", "--seed", "3"]), want);
    assert_eq!(greedy(&["--min-p", "1"]), want);
    assert_ne!(
        greedy(&["--temperature", "0", "--repetition-penalty", "50"]),
        want
    );
}

#[test]
fn json_tells_what_the_text_shows() {
    let (_folder, model) = model();
    let run = grass(&model, &["--json"]);
    let told = report(&run);
    assert_eq!(stderr(&run), "");
    assert_eq!(told["text"], text(&grass(&model, &[])));
    let bytes: Vec<u8> = ids(&told).iter().map(|&id| id as u8).collect();
    assert_eq!(told["text"], String::from_utf8_lossy(&bytes).into_owned());
    assert_eq!(bytes.len(), 40);
    assert_eq!(told["prompt_tokens"], 19);
    assert_eq!(told["ending"], "max-tokens");
    assert_eq!(told["stop_string"], Value::Null);
    assert_eq!(told["states"], Value::Null);
    assert!(told["tokens_per_second"].as_f64().expect("a rate") > 0.0);
}

#[test]
fn no_character_is_split_and_the_pieces_are_the_text() {
    let (_folder, model) = model();
    // Random bytes: most are no characters; stdout is UTF-8 all the same.
    let said = text(&grass(&model, &["--seed", "1"]));
    assert!(said.contains('\u{FFFD}'), "{said:?}");
    // "é" cut in the middle of the prompt: the rest of it belongs to the prompt.
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("prompt");
    fs::write(&file, b"caf\xC3").expect("written");
    let file = file.to_str().expect("UTF-8");
    let run = generate(
        &model,
        &["--prompt-file", file, "--max-tokens", "3", "--json"],
    );
    assert_eq!(report(&run)["prompt_tokens"], 4);
}

#[test]
fn stop_strings_end_the_text_before_them() {
    let (_folder, model) = model();
    let whole = text(&grass(&model, &["--seed", "2"]));
    let letters: Vec<char> = whole.chars().collect();
    let pair: String = letters[9..11].iter().collect();
    let before = whole.find(&pair).expect("part of it");
    let more = ["--seed", "2", "--stop", "no such text", "--stop", &pair];
    assert_eq!(text(&grass(&model, &more)), whole[..before]);
    let told = report(&grass(&model, &[&more[..], &["--json"]].concat()));
    assert_eq!(told["text"], whole[..before]);
    assert_eq!(
        (&told["ending"], &told["stop_string"]),
        (&json!("stop-string"), &json!(pair))
    );
    assert!(ids(&told).len() < 40);
}

#[test]
fn a_prompt_may_come_from_a_file() {
    let (folder, model) = model();
    let file = folder.path().join("prompt");
    fs::write(&file, "The grass is green.").expect("written");
    let file = file.to_str().expect("UTF-8");
    let run = generate(&model, &["--prompt-file", file, "--max-tokens", "40"]);
    assert_eq!(text(&run), text(&grass(&model, &[])));
}

/// An upcycled model: 3 layers of 6 heads, at most 3 states each.
fn upcycled(folder: &TempDir, model: &Path) -> PathBuf {
    let output = folder.path().join("dla");
    let words = ["upcycle", "--capacity", "3", "--tau", "1.3", "--model"].map(OsString::from);
    let paths = [model.into(), "--output".into(), output.clone().into()];
    let run = dla(words.into_iter().chain(paths));
    assert!(run.status.success(), "{}", stderr(&run));
    output
}

#[test]
fn states_are_shown_beside_the_text() {
    let (folder, model) = model();
    let model = upcycled(&folder, &model);
    let run = grass(&model, &["--show-states"]);
    assert_eq!(
        text(&run),
        text(&grass(&model, &[])),
        "the text stays as it was"
    );
    let told = stderr(&run);
    assert!(told.contains("boundaries in 19 tokens"), "{told}");
    let heads = told.lines().skip_while(|line| !line.contains("layer head"));
    assert_eq!(
        heads.count(),
        1 + 18 + 1,
        "a title, each head, the note: {told}"
    );
    let states = &report(&grass(&model, &["--show-states", "--json"]))["states"];
    assert_eq!(states["tokens"], 19 + 40, "the last token is read too");
    let boundaries = states["boundaries"].as_array().expect("a list");
    let merging = boundaries
        .iter()
        .filter(|event| !event["merge_at"].is_null());
    let heads = states["heads"].as_array().expect("a list");
    assert_eq!(heads.len(), 18);
    let sum = |key: &str| {
        heads
            .iter()
            .map(|head| head[key].as_u64().expect("a count"))
            .sum::<u64>()
    };
    assert_eq!(sum("boundaries"), boundaries.len() as u64);
    assert_eq!(sum("merges"), merging.count() as u64);
    assert!(sum("merges") > 0, "caches of 3 fill up");
    for head in heads {
        let n: Vec<u64> = serde_json::from_value(head["n"].clone()).expect("counts");
        assert!(n.len() <= 3 && n.iter().sum::<u64>() == 59, "{head}");
    }
}

#[test]
fn a_tokenizer_json_is_used() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for file in [
        "model/mamba2_groups/config.json",
        "model/mamba2_groups/model.safetensors",
        "text/tokenizer.json",
    ] {
        let source = golden(file);
        let name = source.file_name().expect("a file");
        fs::copy(&source, folder.path().join(name)).expect("copied");
    }
    let settings = json!({"bos_token": "<s>", "eos_token": "</s>"}).to_string();
    fs::write(folder.path().join("tokenizer_config.json"), settings).expect("written");
    let run = |more: &[&str]| generate(folder.path(), &[&["--max-tokens", "9"], more].concat());
    let told = report(&run(&["--prompt", "w7 w9", "--json", "--temperature", "0"]));
    assert_eq!(told["prompt_tokens"], 2);
    let want: String = ids(&told)
        .iter()
        .filter(|&&id| id > 1)
        .map(|id| format!(" w{id}"))
        .collect();
    assert_eq!(told["text"], want, "words with the blanks before them");
    let empty = report(&run(&["--prompt", "", "--json"]));
    assert_eq!(empty["prompt_tokens"], 1, "the begin of text");
    let ended = (0..40).map(|seed| run(&["--prompt", "w7", "--json", "--seed", &seed.to_string()]));
    let ended = ended
        .map(|run| report(&run))
        .find(|told| told["ending"] == "end-of-text");
    let ended = ended.expect("the end of text in 40 runs of 9 tokens, of 83");
    assert_eq!(ids(&ended).last(), Some(&1));
    let file = folder.path().join("prompt");
    fs::write(&file, b"w7 \xFF").expect("written");
    let run = run(&["--prompt-file", file.to_str().expect("UTF-8")]);
    assert_refused("no UTF-8", &run, "expected UTF-8, got another byte at 3");
}

#[test]
fn wrong_usage_is_one_line() {
    let (folder, model) = model();
    let prompt = ["--prompt", "x", "--max-tokens", "1"];
    let missing = folder.path().join("missing");
    let missing = missing.to_str().expect("UTF-8");
    let empty = folder.path().join("empty");
    fs::write(&empty, "").expect("written");
    let empty = empty.to_str().expect("UTF-8");
    let wrong: [(&[&str], &str); 15] = [
        (
            &["--max-tokens", "1"],
            "<--prompt <TEXT>|--prompt-file <FILE>>",
        ),
        (
            &["--prompt", "x", "--prompt-file", "y", "--max-tokens", "1"],
            "cannot be used with",
        ),
        (&["--prompt", "x", "--max-tokens", "0"], "0 is not in 1.."),
        (
            &["--prompt-file", missing, "--max-tokens", "1"],
            "a readable file",
        ),
        (
            &["--prompt", "", "--max-tokens", "1"],
            "--prompt: expected some text",
        ),
        (
            &["--prompt-file", empty, "--max-tokens", "1"],
            "--prompt-file: expected some text",
        ),
        (
            &["--temperature", "-1"],
            "--temperature: expected a finite number of at least 0, got -1",
        ),
        (&["--temperature", "NaN"], "temperature"),
        (&["--temperature", "warm"], "warm"),
        (&["--top-p", "0"], "--top-p: expected above 0 and at most 1"),
        (&["--min-p", "2"], "--min-p: expected 0 to 1, got 2"),
        (&["--repetition-penalty", "0"], "--repetition-penalty"),
        (&["--top-k", "-1"], "-1"),
        (&["--stop", ""], "--stop: expected some text"),
        (&["--weights", "int4"], "int4"),
    ];
    for (more, fault) in wrong {
        let whole = more
            .iter()
            .any(|word| word.starts_with("--prompt") || word.starts_with("--max"));
        let words = if whole {
            more.to_vec()
        } else {
            [&prompt[..], more].concat()
        };
        let mut run = vec![
            OsString::from("generate"),
            "--model".into(),
            model.clone().into(),
        ];
        run.extend(words.iter().map(Into::into));
        assert_refused(&format!("{more:?}"), &dla(run), fault);
    }
    let narrow = generate(&golden("model/mamba2_groups"), &prompt);
    assert_refused(
        "83 ids",
        &narrow,
        "put the model's tokenizer.json beside its weights",
    );
    fs::write(model.join("tokenizer.json"), "{").expect("written");
    assert_refused("no tokenizer", &generate(&model, &prompt), "tokenizer.json");
}

#[test]
fn padded_bytes_are_pointed_out_and_have_no_text() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let model = byte_model(&folder.path().join("model"), 400);
    let run = grass(&model, &[]);
    assert!(
        stderr(&run).contains("ids from 256 on have no text"),
        "{}",
        stderr(&run)
    );
    let told = report(&grass(&model, &["--json"]));
    let bytes: Vec<u8> = ids(&told)
        .iter()
        .filter_map(|&id| u8::try_from(id).ok())
        .collect();
    assert!(bytes.len() < 40, "some ids are no bytes");
    assert_eq!(told["text"], String::from_utf8_lossy(&bytes).into_owned());
}
