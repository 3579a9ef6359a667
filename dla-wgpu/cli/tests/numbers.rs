//! Weights and settings at the ends of single precision: the right logits or one error that names what is wrong, the
//! same on both backends.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use common::{Raw, assert_refused, dla, golden, stderr};
use dla_cli::tensors::TensorFile;
use serde_json::{Value, json};
use tempfile::TempDir;

fn fault(name: &str) -> PathBuf {
    golden("faults").join(name)
}

/// The backends of this machine.
fn backends() -> &'static [&'static str] {
    if std::env::var("DLA_NO_GPU").is_ok_and(|word| word == "1") {
        eprintln!("SKIP: weights on a GPU, DLA_NO_GPU=1");
        return &["cpu"];
    }
    &["cpu", "gpu"]
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn logits(model: &Path, ids: &Path, backend: &str, output: &Path, more: &[&str]) -> Output {
    let path = |path: &Path| path.display().to_string();
    let (model, ids, output) = (path(model), path(ids), path(output));
    let words = ["logits", "--backend", backend, "--model", &model];
    let files = ["--ids", &ids, "--output", &output];
    dla(words.into_iter().chain(files).chain(more.iter().copied()))
}

fn floats(file: &Path) -> Vec<f32> {
    let file = TensorFile::read(file).unwrap_or_else(|error| panic!("{error}"));
    let tensor = file.require("logits").expect("logits");
    tensor.values("", tensor.shape()).expect("f32")
}

/// Whole and token by token, the logits are the expected ones within `most` of the largest.
fn assert_right(model: &Path, ids: &Path, expected: &Path, weights: &[(&str, f32)]) {
    let (folder, want) = (folder(), floats(expected));
    let size = want.iter().fold(0.0f32, |size, x| size.max(x.abs()));
    for backend in backends() {
        for &(weights, most) in weights
            .iter()
            .filter(|(name, _)| *backend == "gpu" || *name == "f32")
        {
            for prefill in ["3", "1", "0"] {
                let out = folder.path().join("out.safetensors");
                let more = ["--prefill", prefill, "--weights", weights];
                let run = logits(model, ids, backend, &out, &more);
                assert!(run.status.success(), "{backend}: {}", stderr(&run));
                let got = floats(&out);
                let gaps = got.iter().zip(&want).map(|(got, want)| (got - want).abs());
                let gap = gaps.fold(0.0f32, f32::max) / size;
                assert!(
                    gap < most,
                    "{backend}, {weights}, {prefill} tokens at once: {gap}"
                );
                assert!(got.iter().all(|x| x.is_finite()), "{backend}, {weights}");
            }
        }
    }
}

/// The golden Mamba-2 or Gated DeltaNet with another config.json and other tensors.
fn changed(
    folder: &Path,
    source: &str,
    config: impl Fn(&mut Value),
    tensor: impl Fn(&str, &mut [f32]),
) -> PathBuf {
    let source = golden(source);
    let text = fs::read_to_string(source.join("config.json")).expect("text");
    let mut settings: Value = serde_json::from_str(&text).expect("JSON");
    config(&mut settings);
    let file = TensorFile::read(&source.join("model.safetensors")).expect("a checkpoint");
    let mut written = Raw::default();
    for name in file.names() {
        let found = file.require(&name).expect("its own name");
        let mut values: Vec<f32> = found.values("", found.shape()).expect("f32");
        tensor(&name, &mut values);
        let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        written.tensor(&name, "F32", found.shape(), bytes);
    }
    let model = folder.join("model");
    let _ = fs::remove_dir_all(&model);
    fs::create_dir(&model).expect("a new folder");
    fs::write(model.join("config.json"), settings.to_string()).expect("written");
    fs::write(model.join("model.safetensors"), written.bytes()).expect("written");
    model
}

/// e^100 is beyond single precision; a decay by it leaves nothing of a state.
#[test]
fn kind_39_a_decay_that_overflows_leaves_nothing() {
    let model = fault("decay_overflow/a_log_100");
    let expected = model.join("expected_logits.safetensors");
    let weights = [("f32", 1e-5), ("f16", 2e-2), ("int8", 0.2)];
    assert_right(
        &model,
        &fault("decay_overflow/ids.safetensors"),
        &expected,
        &weights,
    );
}

/// Under Gated DeltaNet, Δ multiplies nothing but the rate: whatever it is, the decay is right.
#[test]
fn kind_39_a_step_beyond_all_bounds_decays_all_under_the_delta_rule() {
    let (folder, name) = (folder(), "model/gdn_fla");
    let with = |bias: f32| {
        changed(
            folder.path(),
            name,
            |_| (),
            move |name, values| {
                if name.ends_with("dt_bias") {
                    values.fill(bias);
                }
            },
        )
    };
    let ids = golden(name).join("ref.safetensors");
    let at = |out: &str| folder.path().join(out);
    for backend in backends() {
        for (bias, far, out) in [(1e4, 3e38, "erased"), (-200.0, -3e38, "kept")] {
            let [near, far] = [bias, far].map(|bias| {
                let run = logits(&with(bias), &ids, backend, &at(out), &[]);
                assert!(run.status.success(), "{backend}, {bias}: {}", stderr(&run));
                floats(&at(out))
            });
            assert_eq!(near, far, "{backend}, {out}");
        }
    }
}

/// Mamba-2 multiplies its values by Δ: what single precision cannot hold is refused by the tensor's name.
#[test]
fn kind_39_a_step_that_mamba2_cannot_hold_is_refused_by_name() {
    let (folder, model) = (folder(), fault("decay_overflow/dt_bias_3e38"));
    let ids = fault("decay_overflow/ids.safetensors");
    let out = folder.path().join("out.safetensors");
    let mut told = Vec::new();
    for backend in backends() {
        let run = logits(&model, &ids, backend, &out, &[]);
        assert_refused(backend, &run, "tensor backbone.layers.0.mixer.dt_bias");
        assert_refused(backend, &run, "3e38 at index 2");
        assert!(!out.exists(), "{backend}");
        told.push(stderr(&run));
    }
    assert!(told.iter().all(|line| *line == told[0]), "{told:?}");
    // A limit that holds Δ makes it harmless.
    let limited = |value: &mut Value| value["time_step_limit"] = json!([0.0, 10.0]);
    let model = changed(
        folder.path(),
        "model/mamba2_groups",
        limited,
        |name, values| {
            if name.ends_with("dt_bias") {
                values.fill(3e38);
            }
        },
    );
    let ids = golden("model/mamba2_groups").join("ref.safetensors");
    for backend in backends() {
        let run = logits(&model, &ids, backend, &out, &[]);
        assert!(run.status.success(), "{backend}: {}", stderr(&run));
    }
}

/// Activations of 1e21 are in range, their squares are not: the gated norm of every group is what double precision says.
#[test]
fn kind_40_a_norm_whose_squares_overflow_is_right() {
    let (model, folder) = (
        fault("norm_overflow_absorbed/model"),
        "norm_overflow_absorbed",
    );
    let [ids, expected] =
        ["ids", "expected_logits"].map(|name| fault(folder).join(format!("{name}.safetensors")));
    assert_right(&model, &ids, &expected, &[("f32", 1e-5), ("int8", 0.2)]);
}

/// Every norm of both families: the residual stream and each part of a mixer, a power of two away from where they were.
/// No norm's ε counts at either size, so the logits stay.
#[test]
fn kind_40_every_norm_is_right_far_up() {
    let (folder, up) = (folder(), 2f32.powi(80));
    let at = |out: &str| folder.path().join(out);
    for (family, tensors) in [
        // The blocks add little beside a large embedding, so the last norm has the whole stream.
        ("model/mamba2_groups", &["embeddings.weight"][..]),
        ("model/gdn_fla", &["embeddings.weight"][..]),
        // SiLU is linear far up, so queries and keys of unit length stay as they are.
        ("model/gdn_fla", &["q_conv1d.weight", "k_conv1d.weight"][..]),
    ] {
        let ids = golden(family).join("ref.safetensors");
        let scaled = |factor: f32| {
            changed(
                folder.path(),
                family,
                |_| (),
                move |name, values| {
                    if tensors.iter().any(|tensor| name.ends_with(tensor)) {
                        values.iter_mut().for_each(|value| *value *= factor);
                    }
                },
            )
        };
        for backend in backends() {
            for prefill in ["37", "0"] {
                let [near, far] = [2f32.powi(50), up].map(|factor| {
                    let more = ["--prefill", prefill];
                    let run = logits(&scaled(factor), &ids, backend, &at("out"), &more);
                    assert!(run.status.success(), "{backend}: {}", stderr(&run));
                    floats(&at("out"))
                });
                let size = near.iter().fold(0.0f32, |size, x| size.max(x.abs()));
                let gaps = near.iter().zip(&far).map(|(near, far)| (near - far).abs());
                let gap = gaps.fold(0.0f32, f32::max) / size;
                assert!(
                    size > 0.0 && gap < 1e-4,
                    "{family}, {tensors:?}, {backend}: {gap} of {size}"
                );
            }
        }
    }
}

/// Floats of every family's config.json, each with what it must not be.
#[test]
fn kind_41_settings_that_are_no_numbers_to_compute_with_are_refused() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let beyond = || json!({ "__float__": "Infinity" });
    let (mamba2, delta) = ("model/mamba2_groups", "model/gdn_fla");
    let cases: Vec<(&str, &str, Value)> = vec![
        (mamba2, "layer_norm_epsilon", beyond()),
        (mamba2, "layer_norm_epsilon", json!(-1.0)),
        (mamba2, "layer_norm_epsilon", json!(1e39)),
        (mamba2, "expand", beyond()),
        (mamba2, "time_step_limit", json!([-2.0, -1.0])),
        (mamba2, "time_step_limit", json!([1e39, 1e40])),
        (delta, "norm_eps", beyond()),
        (delta, "norm_eps", json!(-1e-6)),
        (delta, "norm_eps", json!(1e39)),
        (delta, "expand_v", beyond()),
        (delta, "dla.epsilon", beyond()),
        (delta, "dla.epsilon", json!(-1.0)),
    ];
    for (family, key, value) in cases {
        let set = |settings: &mut Value| match key.strip_prefix("dla.") {
            Some(key) => settings["dla"] = json!({ key: value }),
            None => settings[key] = value.clone(),
        };
        let model = changed(folder.path(), family, set, |_, _| ());
        let ids = golden(family).join("ref.safetensors");
        let mut runs: Vec<Output> = backends()
            .iter()
            .map(|backend| logits(&model, &ids, backend, &at("out"), &[]))
            .collect();
        let [folder, out] = [&model, &at("out")].map(|path| path.display().to_string());
        runs.push(dla(["inspect", "--model", &folder]));
        runs.push(dla(["upcycle", "--model", &folder, "--output", &out]));
        for run in &runs {
            assert_refused(key, run, &format!("config.json, {key}"));
            assert_eq!(stderr(run), stderr(&runs[0]), "{key}: one fault, one line");
        }
        assert!(!at("out").exists(), "{key}");
    }
    // As Python writes them.
    for name in ["infinity", "negative"] {
        let model = changed(folder.path(), mamba2, |_| (), |_, _| ());
        let config = fault("norm_epsilon_unchecked")
            .join(name)
            .join("config.json");
        fs::copy(config, model.join("config.json")).expect("copied");
        let run = dla(["inspect", "--model", &model.display().to_string()]);
        assert_refused(name, &run, "config.json, layer_norm_epsilon");
    }
}

/// Logits beyond single precision are no result: the run fails, and nothing is written.
#[test]
fn kind_42_logits_that_are_not_finite_fail_the_run() {
    let (folder, name) = (folder(), "model/mamba2_groups");
    let ids = golden(name).join("ref.safetensors");
    let out = folder.path().join("out.safetensors");
    for (tensor, value) in [
        ("lm_head.weight", f32::MAX),
        ("in_proj.weight", f32::MAX),
        ("norm_f.weight", f32::NAN),
    ] {
        let model = changed(
            folder.path(),
            name,
            |_| (),
            |name, values| {
                if name.ends_with(tensor) {
                    values.fill(value);
                }
            },
        );
        for backend in backends() {
            let run = logits(&model, &ids, backend, &out, &[]);
            let told = stderr(&run);
            assert_ne!(run.status.code(), Some(0), "{backend}, {tensor}: {told}");
            let says = ["numbers", "finite"].iter().any(|word| told.contains(word));
            assert!(
                says && told.lines().count() == 1,
                "{backend}, {tensor}: {told}"
            );
            assert!(!out.exists(), "{backend}, {tensor}");
        }
    }
}
