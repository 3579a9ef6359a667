//! `dla inspect`, `dla logits` and `dla upcycle`, as users run them.

mod common;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use common::{Raw, assert_refused, dla, golden, stderr, stdout};
use dla_cli::tensors::{TensorFile, TensorWriter};
use dla_core::model::{
    AttentionConfig, Family, Initial, MixerConfig, ModelConfig, ModelTensors, SpecialIds,
};
use dla_train::store::write_model;
use serde_json::Value;

/// The golden models.
const MODELS: [&str; 2] = ["model/mamba2_groups", "model/gdn_fla"];

fn logits(model: &Path, ids: &Path, output: &Path, more: &[&str]) -> Output {
    let mut words: Vec<&OsStr> = ["logits", "--backend", "cpu", "--model"]
        .map(OsStr::new)
        .into();
    words.extend([model.as_os_str(), "--ids".as_ref(), ids.as_os_str()]);
    words.extend(["--output".as_ref(), output.as_os_str()]);
    words.extend(more.iter().map(OsStr::new));
    dla(words)
}

fn upcycle(model: &Path, output: &Path, more: &[&str]) -> Output {
    let mut words: Vec<&OsStr> = ["upcycle", "--model"].map(OsStr::new).into();
    words.extend([model.as_os_str(), "--output".as_ref(), output.as_os_str()]);
    words.extend(more.iter().map(OsStr::new));
    dla(words)
}

fn inspect(model: &Path) -> Output {
    let words: [&OsStr; 4] = [
        "inspect".as_ref(),
        "--json".as_ref(),
        "--model".as_ref(),
        model.as_ref(),
    ];
    dla(words)
}

fn json(run: &Output) -> Value {
    assert!(run.status.success(), "{}", stderr(run));
    serde_json::from_str(&stdout(run)).expect("a JSON report")
}

fn floats(file: &Path, name: &str) -> (Vec<usize>, Vec<f32>) {
    let file = TensorFile::read(file).unwrap_or_else(|error| panic!("{error}"));
    let tensor = file.require(name).expect("a tensor");
    let values = tensor.values("", tensor.shape()).expect("f32");
    (tensor.shape().to_vec(), values)
}

/// ‖got − want‖ / ‖want‖; NaN is infinitely far.
fn distance(got: &[f32], want: &[f32]) -> f64 {
    assert_eq!(got.len(), want.len());
    let pairs = got.iter().zip(want);
    let gap: f64 = pairs.map(|(&a, &b)| f64::from(a - b).powi(2)).sum();
    let size: f64 = want.iter().map(|&b| f64::from(b).powi(2)).sum();
    let distance = (gap / size).sqrt();
    if distance.is_nan() {
        f64::INFINITY
    } else {
        distance
    }
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

#[test]
fn logits_are_the_golden_ones_at_once_and_in_steps() {
    let folder = folder();
    for name in MODELS {
        let reference = golden(name).join("ref.safetensors");
        let (shape, want) = floats(&reference, "logits");
        for more in [&[][..], &["--prefill", "37"], &["--prefill", "0", "--json"]] {
            let output = folder.path().join("out.safetensors");
            let run = logits(&golden(name), &reference, &output, more);
            assert!(run.status.success(), "{name} {more:?}: {}", stderr(&run));
            let (got_shape, got) = floats(&output, "logits");
            assert_eq!(got_shape, shape, "{name}");
            let distance = distance(&got, &want);
            assert!(distance < 1e-3, "{name} {more:?}: {distance}");
        }
    }
}

#[test]
fn decisions_are_written_and_followed_on_both_backends() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let no_gpu = std::env::var("DLA_NO_GPU").is_ok_and(|no| no == "1");
    if no_gpu {
        println!("SKIP: logits on a GPU, DLA_NO_GPU=1");
    }
    for name in MODELS {
        let (ids, plain) = (golden(name).join("ref.safetensors"), golden(name));
        let model = at(&name.replace('/', "-"));
        let run = upcycle(&plain, &model, &["--capacity", "4", "--tau", "1.2"]);
        assert!(run.status.success(), "{}", stderr(&run));
        let run = |backend: &str, out: &str, more: &[&str]| {
            let mut words = vec!["logits".into(), "--backend".into(), backend.into()];
            words.extend(["--model".into(), model.clone().into_os_string()]);
            words.extend(["--ids".into(), ids.clone().into_os_string()]);
            words.extend(["--output".into(), at(out).into_os_string()]);
            words.extend(more.iter().map(|word| match word.strip_prefix("in:") {
                Some(file) => at(file).into_os_string(),
                None => (*word).into(),
            }));
            let run = dla(words);
            assert!(run.status.success(), "{name} {more:?}: {}", stderr(&run));
            floats(&at(out), "logits").1
        };
        let own = run("cpu", "own", &["--decisions", "in:decisions"]);
        let steps = [
            "--prefill",
            "30",
            "--replay",
            "in:decisions",
            "--decisions",
            "in:again",
        ];
        let backends = if no_gpu {
            &["cpu"][..]
        } else {
            &["cpu", "gpu"]
        };
        for backend in backends {
            let followed = run(backend, "followed", &steps);
            let far = distance(&followed, &own);
            assert!(far < 1e-4, "{name} on {backend}: {far}");
            let words = |file: &str| fs::read(at(file)).expect("written");
            assert!(
                words("again") == words("decisions"),
                "{name} on {backend}: decisions"
            );
        }
        let single = ["--replay", "in:single"];
        let file = TensorFile::read(&at("decisions")).expect("written");
        let boundary = file.require("boundary").expect("a tensor");
        let shape = boundary.shape().to_vec();
        let [batch, tokens, heads] = [shape[1], shape[2], shape[3]];
        let first = (0..shape.iter().product())
            .map(|i: usize| u8::from((i / heads).is_multiple_of(tokens)));
        let mut one_state = TensorWriter::default();
        one_state.tensor("boundary", &shape, &first.collect::<Vec<_>>());
        one_state.tensor("merge_at", &shape, &vec![-1i32; shape.iter().product()]);
        one_state.write(&at("single")).expect("written");
        assert_eq!(batch, 2, "both sequences");
        // All λ are 1, so that other decisions read the same.
        assert!(distance(&run("cpu", "one", &single), &own) < 1e-4);
    }
}

#[test]
fn inspect_tells_architecture_state_and_faults() {
    let report = json(&inspect(&golden(MODELS[0])));
    assert_eq!(report["parameters"], 31_794);
    assert_eq!(report["refused"], serde_json::json!([]));
    // 3 layers: 3 inputs of 144 channels, 6 heads of 14 x 10 with a token count and Ī each.
    assert_eq!(report["state_bytes"], 4 * 3 * (3 * 144 + 6 * (140 + 2)));
    let folder = folder();
    let broken = copy(MODELS[0], folder.path());
    let config = fs::read_to_string(broken.join("config.json")).expect("text");
    let fewer = config.replace(r#""num_hidden_layers": 3"#, r#""num_hidden_layers": 2"#);
    fs::write(broken.join("config.json"), fewer).expect("written");
    let report = json(&inspect(&broken));
    let refused = report["refused"].as_array().expect("a list");
    assert_eq!(refused.len(), 9, "the third layer's tensors: {refused:?}");
}

/// A small softmax attention that has not been trained.
fn attention(folder: &Path) {
    let config = ModelConfig {
        family: Family::Attention,
        hidden: 8,
        layers: 2,
        vocabulary: 256,
        tied: true,
        norm_epsilon: 1e-6,
        mixer: MixerConfig::Attention(AttentionConfig {
            heads: 2,
            head_dim: 4,
            conv_width: 4,
            intermediate: 12,
        }),
        dla: None,
        special: SpecialIds::default(),
    };
    let mut source = Initial::new(&config, 1, 0.6).expect("a number");
    let tensors = ModelTensors::load(&config, &mut source).expect("weights for everything");
    write_model(folder, &config, &tensors).expect("written");
}

#[test]
fn softmax_attention_is_told_and_has_no_states() {
    let folder = folder();
    let model = folder.path();
    attention(model);
    let report = json(&inspect(model));
    assert_eq!(report["family"], "softmax attention");
    assert_eq!(report["backbone"], Value::Null);
    assert_eq!(report["refused"], serde_json::json!([]));
    // The inputs of three convolutions of 8 channels and width 4, two layers, f32.
    assert_eq!(report["state_bytes"], 3 * 8 * 3 * 2 * 4);
    let text = model.join("text");
    fs::write(&text, "a text").expect("written");
    let words = ["segment", "--backend", "cpu", "--model"].map(OsStr::new);
    let more = [model.as_os_str(), "--text-file".as_ref(), text.as_os_str()];
    assert_refused(
        "segment",
        &dla([words.as_slice(), &more].concat()),
        "softmax attention",
    );
    let run = upcycle(model, &model.join("dla"), &[]);
    assert_refused("upcycle", &run, "a model that keeps states");
    let words = [
        "generate",
        "--show-states",
        "--prompt",
        "a",
        "--max-tokens",
        "1",
        "--model",
    ];
    let run = dla([words.map(OsStr::new).as_slice(), &[model.as_os_str()]].concat());
    assert_refused(
        "states",
        &run,
        "--show-states: expected a model that keeps states",
    );
    let ids = model.join("ids");
    let mut file = TensorWriter::default();
    file.tensor("input_ids", &[1, 3], &[1i64, 2, 3]);
    file.write(&ids).expect("written");
    let out = model.join("logits");
    for option in ["--decisions", "--replay"] {
        let run = logits(model, &ids, &out, &[option, "there"]);
        assert_refused(option, &run, "a model that keeps states");
    }
    let run = logits(model, &ids, &out, &["--prefill", "2"]);
    assert!(run.status.success(), "{}", stderr(&run));
    assert_eq!(floats(&out, "logits").0, [1, 3, 256]);
}

/// Logits, a generated text and bits per byte, beyond the room that keys and values have at first.
#[test]
fn softmax_attention_runs_on_a_device_as_on_the_cpu() {
    if std::env::var("DLA_NO_GPU").is_ok_and(|no| no == "1") {
        println!("SKIP: softmax attention on a GPU, DLA_NO_GPU=1");
        return;
    }
    let folder = folder();
    let model = folder.path();
    attention(model);
    let on = |backend: &str, words: &[&str]| {
        let mut all: Vec<&OsStr> = vec![words[0].as_ref(), "--backend".as_ref(), backend.as_ref()];
        all.extend(["--json", "--model"].map(OsStr::new));
        all.push(model.as_os_str());
        all.extend(words[1..].iter().map(OsStr::new));
        json(&dla(all))
    };
    let path = |name: &str| model.join(name).display().to_string();
    let (ids, text) = (path("ids"), path("text"));
    let mut file = TensorWriter::default();
    let numbers: Vec<i64> = (0..2 * 270).map(|i| i * i % 251).collect();
    file.tensor("input_ids", &[2, 270], &numbers);
    file.write(ids.as_ref()).expect("written");
    fs::write(&text, "what a text says, again and again ".repeat(20)).expect("written");
    let [cpu, gpu] = ["cpu", "gpu"].map(|backend| {
        let out = path(backend);
        let words = [
            "logits",
            "--ids",
            &ids,
            "--output",
            &out,
            "--prefill",
            "250",
        ];
        on(backend, &words);
        let words = [
            "generate",
            "--prompt",
            "a text",
            "--max-tokens",
            "12",
            "--temperature",
            "0",
        ];
        let told = on(backend, &words);
        assert_eq!(told["backend"], backend);
        let words = [
            "eval",
            "--task",
            "text",
            "--text-file",
            &text,
            "--lengths",
            "300",
        ];
        let bits = on(backend, &words)["bits_per_byte"].as_f64();
        (
            floats(out.as_ref(), "logits").1,
            told["ids"].clone(),
            bits.expect("a number"),
        )
    });
    let far = distance(&gpu.0, &cpu.0);
    assert!(far < 1e-5, "logits are {far} away");
    assert_eq!(gpu.1, cpu.1, "the generated ids");
    assert!(
        (gpu.2 - cpu.2).abs() < 1e-5,
        "{} and {} bits per byte",
        gpu.2,
        cpu.2
    );
}

#[test]
fn upcycled_gives_the_same_logits_and_says_that_it_is_dla() {
    let folder = folder();
    for (index, name) in MODELS.into_iter().enumerate() {
        let reference = golden(name).join("ref.safetensors");
        let upcycled = folder.path().join(format!("upcycled{index}"));
        let report = json(&upcycle(
            &golden(name),
            &upcycled,
            &["--capacity", "5", "--json"],
        ));
        assert_eq!(report["capacity"], 5);
        let inspected = json(&inspect(&upcycled));
        assert_eq!(inspected["dla"]["capacity"], 5, "{inspected}");
        assert_eq!(inspected["refused"], serde_json::json!([]));
        let output = folder.path().join("out.safetensors");
        let run = logits(&upcycled, &reference, &output, &["--prefill", "50"]);
        assert!(run.status.success(), "{}", stderr(&run));
        let distance = distance(
            &floats(&output, "logits").1,
            &floats(&reference, "logits").1,
        );
        assert!(distance < 1e-3, "{name}: {distance}");
        let again = upcycle(&upcycled, &folder.path().join("again"), &[]);
        assert_refused("DLA already", &again, "plain checkpoint");
        let onto = upcycle(&golden(name), &upcycled, &[]);
        assert_refused(
            "an existing output",
            &onto,
            "expected a new folder, got one that exists",
        );
    }
    for (name, more) in [
        ("capacity", ["--capacity", "65"]),
        ("tau", ["--tau", "NaN"]),
    ] {
        let output = folder.path().join("refused");
        assert_refused(name, &upcycle(&golden(MODELS[0]), &output, &more), name);
        assert!(!output.exists(), "{name}: a refused run leaves nothing");
    }
}

/// A copy of a golden model that may be spoilt.
fn copy(name: &str, to: &Path) -> PathBuf {
    let model = to.join("model");
    fs::create_dir_all(&model).expect("created");
    for file in ["config.json", "model.safetensors"] {
        fs::copy(golden(name).join(file), model.join(file)).expect("copied");
    }
    model
}

/// A file of ids `[1, ids]`.
fn write_ids(path: &Path, ids: &[i64]) {
    let mut file = TensorWriter::default();
    file.tensor("input_ids", &[1, ids.len()], ids);
    file.write(path).expect("written");
}

#[test]
fn wrong_ids_and_options_are_refused_without_an_output() {
    let folder = folder();
    let (ids, output) = (folder.path().join("ids"), folder.path().join("out"));
    let model = golden(MODELS[0]);
    for (name, values) in [
        ("negative", [3, -1]),
        ("beyond", [83, 0]),
        ("huge", [0, i64::MAX]),
    ] {
        write_ids(&ids, &values);
        assert_refused(
            name,
            &logits(&model, &ids, &output, &[]),
            "token ids from 0 to 82",
        );
    }
    write_ids(&ids, &[1, 2]);
    let run = logits(&model, &ids, &output, &["--prefill", "3"]);
    assert_refused("prefill", &run, "--prefill");
    let run = logits(&model, &ids, &output, &["--weights", "int4"]);
    assert_refused("weights", &run, "int4");
    let run = logits(&model, &ids, &output, &["--replay", "nowhere"]);
    assert_refused("replay", &run, "nowhere");
    let mut raw = Raw {
        words: Vec::new(),
        tensors: Vec::new(),
    };
    for (name, fault) in [
        ("none", "input_ids"),
        ("floats", "F32"),
        ("flat", "shape [B, T]"),
    ] {
        match name {
            "floats" => raw.floats("input_ids", &[1, 2], 1.0),
            "flat" => raw.tensor("input_ids", "I64", &[2], vec![0; 16]),
            _ => {}
        }
        fs::write(&ids, raw.bytes()).expect("written");
        assert_refused(name, &logits(&model, &ids, &output, &[]), fault);
    }
    assert!(!output.exists(), "refused runs leave nothing");
}

/// A hundred bytes that ask for a trillion sequences.
#[test]
fn a_small_file_of_ids_cannot_ask_for_all_memory() {
    let folder = folder();
    let header = r#"{"input_ids":{"dtype":"I64","shape":[1099511627776,0],"data_offsets":[0,0]}}"#;
    let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
    let ids = folder.path().join("ids.safetensors");
    fs::write(&ids, bytes).expect("a file");
    let output = folder.path().join("out.safetensors");
    let run = logits(&golden("model/mamba2_groups"), &ids, &output, &[]);
    assert_refused("sequences", &run, "sequences");
    assert!(!output.exists());
}

#[test]
fn no_tokens_give_no_logits() {
    let folder = folder();
    let (ids, output) = (folder.path().join("ids"), folder.path().join("out"));
    write_ids(&ids, &[]);
    let run = logits(&golden(MODELS[0]), &ids, &output, &[]);
    assert!(run.status.success(), "{}", stderr(&run));
    assert_eq!(floats(&output, "logits"), (vec![1, 0, 83], vec![]));
}

#[test]
fn wrong_model_directories_are_refused_by_every_command() {
    let folder = folder();
    let (ids, output) = (folder.path().join("ids"), folder.path().join("out"));
    write_ids(&ids, &[1, 2]);
    let model = copy(MODELS[0], folder.path());
    let check = |name: &str, fault: &str| {
        assert_refused(name, &logits(&model, &ids, &output, &[]), fault);
        assert_refused(name, &upcycle(&model, &output, &[]), fault);
        assert_refused(name, &inspect(&model), fault);
        assert!(!output.exists(), "{name}: a refused run leaves nothing");
    };
    let weights = fs::read(model.join("model.safetensors")).expect("read");
    fs::write(
        model.join("model.safetensors"),
        &weights[..weights.len() - 4],
    )
    .expect("written");
    check("truncated", "well-formed safetensors");
    fs::remove_file(model.join("model.safetensors")).expect("removed");
    check("no weights", "model.safetensors");
    fs::write(model.join("pytorch_model.bin"), b"\x80\x02").expect("written");
    check("a pickle", "torch.load");
    fs::write(model.join("config.json"), "{").expect("written");
    fs::write(model.join("model.safetensors"), &weights).expect("written");
    check("no JSON", "a JSON object");
    fs::remove_file(model.join("config.json")).expect("removed");
    check("no config.json", "config.json");
}

#[test]
fn the_free_choice_of_a_backend_says_what_it_chose() {
    let folder = folder();
    let (ids, output) = (folder.path().join("ids"), folder.path().join("out"));
    write_ids(&ids, &[1, 2]);
    let run = logits(&golden(MODELS[0]), &ids, &output, &[]);
    assert_eq!(stderr(&run), "", "--backend cpu has nothing to add");
    let mut words: Vec<&OsStr> = ["logits", "--model"].map(OsStr::new).into();
    let model = golden(MODELS[0]);
    words.extend([model.as_os_str(), "--ids".as_ref(), ids.as_os_str()]);
    words.extend(["--output".as_ref(), output.as_os_str()]);
    let run = dla(words);
    assert!(run.status.success(), "{}", stderr(&run));
    assert_eq!(stderr(&run).lines().count(), 1, "{}", stderr(&run));
}
