//! What a text is, as users meet it: where it ends, what its tokens say, which files they come from.

mod common;

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use common::{assert_refused, byte_model, dla, golden, saying_model, stderr, stdout};
use dla_cli::tensors::TensorFile;
use serde_json::{Value, json};
use tempfile::TempDir;

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn write(folder: &Path, name: &str, json: &Value) {
    fs::write(folder.join(name), json.to_string()).expect("written");
}

fn words(model: &Path, more: &[&str]) -> Vec<OsString> {
    let words = [
        "generate",
        "--backend",
        "cpu",
        "--temperature",
        "0",
        "--model",
    ];
    let words = words.map(OsString::from).into_iter().chain([model.into()]);
    words.chain(more.iter().map(Into::into)).collect()
}

fn generate(model: &Path, more: &[&str]) -> Output {
    dla(words(model, more))
}

fn report(run: &Output) -> Value {
    assert!(run.status.success(), "{}", stderr(run));
    serde_json::from_str(&stdout(run)).expect("one JSON object")
}

/// A model of bytes, <|endoftext|> (256) and <|im_end|> (257) that says b c <|im_end|> d e <|endoftext|> after a;
/// generation_config.json names both ends, tokenizer_config.json the first.
fn chat(folder: &TempDir) -> PathBuf {
    let next = [
        (97, 98),
        (98, 99),
        (99, 257),
        (257, 100),
        (100, 101),
        (101, 256),
    ];
    saying_model("eos_ids_ignored", &folder.path().join("chat"), &next)
}

/// What it says after a, and how that ended; no number of tokens is asked for.
fn says(model: &Path) -> (Value, Value, Value) {
    let told = report(&generate(model, &["--prompt", "a", "--json"]));
    (
        told["text"].clone(),
        told["ids"].clone(),
        told["ending"].clone(),
    )
}

fn edit(folder: &Path, name: &str, change: impl FnOnce(&mut Value)) {
    let text = fs::read_to_string(folder.join(name)).expect("text");
    let mut json = serde_json::from_str(&text).expect("JSON");
    change(&mut json);
    write(folder, name, &json);
}

#[test]
fn kind_43_a_text_ends_where_any_file_says() {
    let folder = folder();
    let model = chat(&folder);
    let short = (json!("bc"), json!([98, 99, 257]), json!("end-of-text"));
    let long = (
        json!("bcde"),
        json!([98, 99, 257, 100, 101, 256]),
        json!("end-of-text"),
    );
    assert_eq!(says(&model), short, "generation_config.json, a list");
    // What is null or empty there is looked for in the next file.
    for none in [json!(null), json!([])] {
        write(
            &model,
            "generation_config.json",
            &json!({"eos_token_id": none}),
        );
        for (eos, want) in [
            (json!(257), &short),
            (json!([256]), &long),
            (json!(null), &long),
        ] {
            edit(&model, "config.json", |json| {
                json["eos_token_id"] = eos.clone()
            });
            assert_eq!(&says(&model), want, "config.json: {eos}");
        }
    }
    fs::remove_file(model.join("generation_config.json")).expect("removed");
    fs::remove_file(model.join("tokenizer_config.json")).expect("removed");
    let named = json!({"eos_token": {"content": "<|im_end|>", "special": true}});
    write(&model, "special_tokens_map.json", &named);
    assert_eq!(says(&model), short, "special_tokens_map.json");
    write(
        &model,
        "tokenizer_config.json",
        &json!({"eos_token": "<|endoftext|>"}),
    );
    assert_eq!(says(&model), long, "tokenizer_config.json goes before it");
}

#[test]
fn kind_43_no_end_is_guessed_and_256_tokens_are_the_default() {
    let folder = folder();
    let model = chat(&folder);
    for name in ["generation_config.json", "tokenizer_config.json"] {
        fs::remove_file(model.join(name)).expect("removed");
    }
    let run = generate(&model, &["--prompt", "a"]);
    assert!(run.status.success());
    let told = stderr(&run);
    assert!(told.contains("256 tokens on the CPU"), "{told}");
    assert!(
        told.contains("name no end of text; --max-tokens says"),
        "{told}"
    );
    let told = report(&generate(&model, &["--prompt", "a", "--json"]));
    assert_eq!(told["ids"].as_array().map(Vec::len), Some(256));
    assert_eq!(told["ending"], "max-tokens");
}

#[test]
fn kind_43_ids_that_are_none_are_refused_by_file_and_key() {
    let folder = folder();
    let model = chat(&folder);
    for file in ["generation_config.json", "config.json"] {
        for key in ["eos_token_id", "bos_token_id", "pad_token_id"] {
            for wrong in [
                json!(-1),
                json!(258),
                json!("</s>"),
                json!(2.5),
                json!(true),
            ] {
                edit(&model, file, |json| json[key] = wrong);
                let run = generate(&model, &["--prompt", "a"]);
                assert_refused(key, &run, &format!("{file}, {key}: expected"));
                assert_refused(key, &run, "from 0 to 257");
            }
            edit(&model, file, |json| json[key] = Value::Null);
        }
        edit(&model, file, |json| {
            json["eos_token_id"] = json!([256, 999])
        });
        let run = generate(&model, &["--prompt", "a"]);
        assert_refused(
            "a list",
            &run,
            &format!("{file}, eos_token_id: expected token ids"),
        );
        edit(&model, file, |json| json["eos_token_id"] = json!(257));
    }
    write(
        &model,
        "tokenizer_config.json",
        &json!({"eos_token": "<|gone|>"}),
    );
    for file in ["generation_config.json", "config.json"] {
        assert!(
            generate(&model, &["--prompt", "a"]).status.success(),
            "not needed"
        );
        edit(&model, file, |json| json["eos_token_id"] = Value::Null);
    }
    let run = generate(&model, &["--prompt", "a"]);
    assert_refused(
        "a name",
        &run,
        "tokenizer_config.json, eos_token: expected a token",
    );
}

#[test]
fn kind_43_upcycled_and_trained_models_end_alike() {
    let folder = folder();
    let model = chat(&folder);
    let ids = json!({"bos_token_id": 256, "eos_token_id": [257, 256], "pad_token_id": 0});
    write(&model, "generation_config.json", &ids);
    let want = says(&model);
    assert_eq!(want.1, json!([98, 99, 257]));
    let upcycled = folder.path().join("upcycled");
    let words = ["upcycle", "--capacity", "2", "--model"].map(OsString::from);
    let paths = [
        model.clone().into(),
        "--output".into(),
        upcycled.clone().into(),
    ];
    let run = dla(words.into_iter().chain(paths));
    assert!(run.status.success(), "{}", stderr(&run));
    assert_eq!(says(&upcycled), want);
    // The first step's rate is 0 in effect: the weights stay what they were.
    let text = folder.path().join("text.txt");
    fs::write(&text, "a b c d ".repeat(200)).expect("a text");
    let (output, settings) = (folder.path().join("out"), folder.path().join("run.toml"));
    let toml = format!(
        "seed = 1\nsteps = 1\noutput = {output:?}\n[data]\ntask = \"text\"\nfiles = [{text:?}]\nlength = 8\n\
         tokenizer = {model:?}\n[batch]\nsequences = 2\n[optimiser]\nrate = 1e-30\n"
    );
    fs::write(&settings, toml).expect("settings");
    let words = ["train", "--backend", "cpu", "--init"].map(OsString::from);
    let paths = [model.into(), "--config".into(), settings.into()];
    let run = dla(words.into_iter().chain(paths));
    assert!(run.status.success(), "{}", stderr(&run));
    let trained = output.join("step-00000001");
    let config = fs::read_to_string(trained.join("config.json")).expect("text");
    let config: Value = serde_json::from_str(&config).expect("JSON");
    for (key, id) in ids.as_object().expect("ids") {
        assert_eq!(&config[key], id, "{key}");
    }
    assert_eq!(says(&trained), want);
}

#[test]
fn kind_44_added_tokens_are_their_own_text() {
    let folder = folder();
    let next = [(97, 257), (257, 258), (258, 259), (259, 256)];
    let model = saying_model("added_token_bytelevel", &folder.path().join("model"), &next);
    let run = generate(&model, &["--prompt", "a", "--max-tokens", "4", "--json"]);
    assert_eq!(report(&run)["text"], "đemnaïvečaj");
}

#[test]
fn kind_44_special_tokens_do_not_hide_the_word_before() {
    let folder = folder();
    let next = [(271, 261), (261, 263), (263, 2)];
    let model = saying_model(
        "lookback_special_tokens",
        &folder.path().join("model"),
        &next,
    );
    for count in [0, 6, 7, 40] {
        let tokens: String = (0..count).map(|i| format!("<|r{}|>", i % 8)).collect();
        let prompt = format!("hello{tokens}<|r7|>");
        let run = generate(&model, &["--prompt", &prompt, "--json"]);
        let told = report(&run);
        assert_eq!(
            (&told["text"], &told["ending"]),
            (&json!(" worldy"), &json!("end-of-text"))
        );
    }
}

fn logits(model: &Path, output: &Path) -> Output {
    let words = ["logits", "--backend", "cpu", "--model"].map(OsString::from);
    let ids = golden("faults/shard_index_overlay/ids.safetensors");
    let paths = [
        model.into(),
        "--ids".into(),
        ids.into(),
        "--output".into(),
        output.into(),
    ];
    dla(words.into_iter().chain(paths))
}

/// The index takes one tensor from a file laid over an older one that still has it.
#[test]
fn kind_45_the_index_says_which_shard_a_tensor_comes_from() {
    let folder = folder();
    let (model, output) = (folder.path().join("model"), folder.path().join("out"));
    fs::create_dir(&model).expect("a new folder");
    let source = golden("faults/shard_index_overlay");
    for entry in fs::read_dir(&source).expect("the fault's files") {
        let file = entry.expect("a file");
        fs::write(
            model.join(file.file_name()),
            fs::read(file.path()).expect("read"),
        )
        .expect("written");
    }
    let values = |path: &Path| {
        let file = TensorFile::read(path).expect("logits");
        let tensor = file.require("logits").expect("logits");
        tensor.values::<f32>("", tensor.shape()).expect("f32")
    };
    let run = logits(&model, &output);
    assert!(run.status.success(), "{}", stderr(&run));
    assert_eq!(stderr(&run), "", "the older copy is no surprise");
    let (got, want) = (
        values(&output),
        values(&source.join("expected_logits.safetensors")),
    );
    let far = got
        .iter()
        .zip(&want)
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f32::max);
    assert_eq!(got.len(), want.len());
    assert!(far < 1e-5, "{far}");
    let index = "model.safetensors.index.json";
    let name = "backbone.layers.1.mixer.out_proj.weight";
    let text = fs::read_to_string(model.join(index)).expect("text");
    for (file, fault) in [
        (
            "model-00001-of-00002.safetensors",
            "expected a tensor of model-00001",
        ),
        (
            "model-00003.safetensors",
            "model-00003.safetensors, which is not there",
        ),
        ("../out", "expected a file's name, got \"../out\""),
        ("/etc/passwd", "expected a file's name"),
    ] {
        edit(&model, index, |json| json["weight_map"][name] = json!(file));
        assert_refused(file, &logits(&model, &output), fault);
        assert_refused(file, &logits(&model, &output), &format!("{index}, {name}"));
        fs::write(model.join(index), &text).expect("written");
    }
    // A tensor that the index does not name is not read, and noted once.
    edit(&model, index, |json| {
        json["weight_map"]
            .as_object_mut()
            .expect("a map")
            .remove("lm_head.weight");
    });
    edit(&model, "config.json", |json| {
        json["tie_word_embeddings"] = json!(true)
    });
    let run = logits(&model, &output);
    assert!(run.status.success(), "{}", stderr(&run));
    let told = stderr(&run);
    assert_eq!(told.lines().count(), 1, "{told}");
    assert!(
        told.contains("does not name 1 of their tensors, which are skipped: lm_head.weight"),
        "{told}"
    );
    assert_ne!(values(&output), want);
    let inspected = dla(["inspect".into(), "--model".into(), model.into_os_string()]);
    assert!(
        stdout(&inspected).contains("skipped: lm_head.weight"),
        "{}",
        stdout(&inspected)
    );
}

#[test]
fn kind_46_ids_that_only_one_side_has_matter_where_they_are_met() {
    let folder = folder();
    let model = chat(&folder);
    // A token that was added and never trained.
    edit(&model, "tokenizer.json", |json| {
        let mut token = json["added_tokens"][0].clone();
        token["id"] = json!(258);
        token["content"] = json!("<|new|>");
        json["added_tokens"]
            .as_array_mut()
            .expect("a list")
            .push(token);
    });
    assert_eq!(says(&model).0, json!("bc"));
    let run = generate(&model, &["--prompt", "a<|new|>"]);
    assert_refused(
        "met",
        &run,
        "expected ids below the model's vocabulary, 258, got 258 for \"<|new|>\"",
    );
    // Rows that no token has.
    edit(&model, "tokenizer.json", |json| {
        json["added_tokens"]
            .as_array_mut()
            .expect("a list")
            .truncate(1);
    });
    let run = generate(&model, &["--prompt", "a", "--max-tokens", "9"]);
    let told = stderr(&run);
    assert!(run.status.success(), "{told}");
    assert_eq!(told.matches("have no text").count(), 1, "{told}");
    assert!(
        told.contains("1 of the 3 tokens have no text, the first of them 257"),
        "{told}"
    );
}

#[test]
fn a_prompt_may_come_from_stdin() {
    let folder = folder();
    let model = byte_model(&folder.path().join("model"), 256);
    let mut run = Command::new(env!("CARGO_BIN_EXE_dla"))
        .args(words(
            &model,
            &["--prompt-file", "-", "--max-tokens", "20", "--json"],
        ))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut stdin = run.stdin.take().expect("a pipe");
    stdin.write_all(b"The grass is green.").expect("written");
    drop(stdin);
    let piped = report(&run.wait_with_output().expect("its output"));
    let same = generate(
        &model,
        &[
            "--prompt",
            "The grass is green.",
            "--max-tokens",
            "20",
            "--json",
        ],
    );
    assert_eq!(piped["ids"], report(&same)["ids"]);
    assert_eq!(piped["prompt_tokens"], 19);
}
