//! Checkpoints that are wrong are refused with a name for the fault; none panics.

use std::fs;
use std::path::PathBuf;

use dla_core::checkpoint::Checkpoint;
use dla_core::{Model, Result};
use serde_json::{Value, json};

use crate::support::*;

/// The weights of [`mamba2`].
fn tensors() -> Vec<(String, Vec<usize>, Vec<f32>)> {
    let mut weights = RandomWeights::default();
    Model::build(&mamba2().0, &mut weights).expect("weights for everything");
    weights.tensors
}

fn load(config: &str, bytes: Vec<u8>) -> Result<Model> {
    Checkpoint::from_bytes(config, vec![("weights".to_owned(), bytes)])?.model()
}

fn assert_refused(name: &str, result: Result<Model>, fault: &str) {
    let error = result.expect_err(name);
    let told = error.to_string();
    assert!(error.is_input() || error.is_unsupported(), "{name}: {told}");
    assert_eq!(error.op(), "load", "{name}: {told}");
    assert!(told.contains(fault), "{name}: expected `{fault}` in {told}");
}

#[test]
fn kind_36_malformed_containers() {
    let good = safetensors(&tensors());
    let config = mamba2_json().to_string();
    let with_length = |n: u64| [&n.to_le_bytes()[..], &good[8..]].concat();
    for (name, bytes) in [
        ("empty", Vec::new()),
        ("cut in the header", good[..100].to_vec()),
        ("cut in the data", good[..good.len() - 1].to_vec()),
        ("a byte too many", [&good[..], &[0]].concat()),
        ("a header longer than the file", with_length(1 << 26)),
        ("a header of 2^64 − 1 bytes", with_length(u64::MAX)),
        ("no JSON", with_length(3)),
    ] {
        assert_refused(name, load(&config, bytes), "well-formed safetensors");
    }
    let header = |entries: &str, data: usize| {
        let text = format!("{{{entries}}}");
        [
            &(text.len() as u64).to_le_bytes()[..],
            text.as_bytes(),
            &vec![0; data],
        ]
        .concat()
    };
    let entry = |shape: &str, range: &str| {
        format!(r#"{{"dtype":"F32","shape":{shape},"data_offsets":{range}}}"#)
    };
    let small = entry("[2]", "[0,8]");
    for (name, entries) in [
        ("overlapping", format!(r#""a":{small},"b":{small}"#)),
        (
            "overflowing",
            format!(r#""a":{}"#, entry("[4294967296,4294967296]", "[0,8]")),
        ),
        ("twice", format!(r#""a":{small},"a":{small}"#)),
    ] {
        assert_refused(
            name,
            load(&config, header(&entries, 8)),
            "well-formed safetensors",
        );
    }
}

#[test]
fn every_cut_and_flipped_byte_is_survived() {
    let good = safetensors(&tensors());
    let config = mamba2_json().to_string();
    let header = 8 + u64::from_le_bytes(good[..8].try_into().expect("eight bytes")) as usize;
    for at in (0..header).step_by(7) {
        assert!(load(&config, good[..at].to_vec()).is_err(), "cut at {at}");
        let mut flipped = good.clone();
        flipped[at] ^= 0x11;
        // Some flips only rename what nobody reads; none may panic.
        let _ = load(&config, flipped);
    }
}

#[test]
fn tensors_missing_left_over_misshapen_or_of_another_type() {
    let config = mamba2_json().to_string();
    let mut missing = tensors();
    let name = missing.remove(3).0;
    assert_refused("missing", load(&config, safetensors(&missing)), &name);
    let mut extra = tensors();
    extra.push(("backbone.layers.7.mixer.D".into(), vec![1], vec![0.0]));
    assert_refused(
        "extra",
        load(&config, safetensors(&extra)),
        "backbone.layers.7.mixer.D",
    );
    let mut misshapen = tensors();
    misshapen[1].1 = [&misshapen[1].1[..], &[1]].concat();
    assert_refused(
        "misshapen",
        load(&config, safetensors(&misshapen)),
        &misshapen[1].0,
    );
    let mut integers = safetensors(&tensors());
    let at = integers
        .windows(3)
        .position(|w| w == b"F32")
        .expect("a type");
    integers[at] = b'I';
    assert_refused("integers", load(&config, integers), "I32");
    assert_refused("nothing", load(&config, safetensors(&[])), "no such tensor");
}

#[test]
fn kind_36_unaligned_half_precision_widens() {
    let folder = golden("mamba2_groups");
    let file = dla_core::tensors::TensorFile::open(&folder.join("model.safetensors"));
    let file = file.expect("a golden file");
    let (mut entries, mut data) = (serde_json::Map::new(), vec![0u8]);
    entries.insert(
        "pad".into(),
        json!({"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}),
    );
    for name in file.names() {
        let tensor = file.require(&name).expect("a tensor");
        let values = tensor.values::<f32>("", tensor.shape()).expect("f32");
        let start = data.len();
        let upper_half = |x: &f32| ((x.to_bits() >> 16) as u16).to_le_bytes();
        data.extend(values.iter().flat_map(upper_half));
        let range = [start, data.len()];
        let entry = json!({"dtype": "BF16", "shape": tensor.shape(), "data_offsets": range});
        entries.insert(name, entry);
    }
    let header = Value::from(entries).to_string();
    let length = (header.len() as u64).to_le_bytes();
    let bytes = [&length[..], header.as_bytes(), &data].concat();
    let parsed = dla_core::tensors::TensorFile::parse("halves".into(), bytes).expect("sound");
    let name = "backbone.layers.0.mixer.D";
    let widened = parsed
        .require(name)
        .expect("there")
        .widened("[H]", &[6])
        .expect("bf16");
    let exact = file
        .require(name)
        .expect("there")
        .values::<f32>("[H]", &[6])
        .expect("f32");
    for (got, want) in widened.iter().zip(exact) {
        assert!((got - want).abs() <= want.abs() / 128.0, "{got} for {want}");
    }
}

/// `json` with `key` (in `section`, if any) set.
fn with(mut json: Value, section: Option<&str>, key: &str, value: Value) -> String {
    let object = match section {
        Some(section) => &mut json[section],
        None => &mut json,
    };
    object[key] = value;
    json.to_string()
}

#[test]
fn settings_that_are_not_served_are_named() {
    let hugging_face = |key, value| with(mamba2_json(), None, key, value);
    let spaces = |key, value| with(state_spaces_json(), None, key, value);
    let ssm = |key, value| with(state_spaces_json(), Some("ssm_cfg"), key, value);
    let fla = |key, value| with(gated_delta_json(), None, key, value);
    let dla = |section: Value| hugging_face("dla", section);
    for (key, config) in [
        ("model_type", hugging_face("model_type", json!("llama"))),
        ("model_type", json!({}).to_string()),
        ("hidden_act", hugging_face("hidden_act", json!("gelu"))),
        ("num_heads", hugging_face("num_heads", json!(5))),
        ("num_heads", hugging_face("num_heads", json!(-6))),
        ("num_heads", hugging_face("num_heads", json!(u64::MAX))),
        ("hidden_size", hugging_face("hidden_size", json!("15"))),
        ("state_size", hugging_face("state_size", json!(0))),
        ("key_dim", hugging_face("state_size", json!(257))),
        ("heads", hugging_face("n_groups", json!(4))),
        (
            "time_step_limit",
            hugging_face("time_step_limit", json!([1.0, 0.0])),
        ),
        (
            "time_step_limit",
            hugging_face("time_step_limit", json!([1.0])),
        ),
        (
            "quantization_config",
            hugging_face("quantization_config", json!({})),
        ),
        ("rms_norm", spaces("rms_norm", json!(false))),
        ("attn_layer_idx", spaces("attn_layer_idx", json!([1]))),
        ("d_intermediate", spaces("d_intermediate", json!(64))),
        ("ssm_cfg.layer", ssm("layer", json!("Mamba1"))),
        (
            "ssm_cfg.norm_before_gate",
            ssm("norm_before_gate", json!(true)),
        ),
        ("ssm_cfg.D_has_hdim", ssm("D_has_hdim", json!(true))),
        ("ssm_cfg.headdim", ssm("headdim", json!(7))),
        ("ssm_cfg.news", ssm("news", json!(1))),
        ("attn", fla("attn", json!({"layers": [0]}))),
        ("use_short_conv", fla("use_short_conv", json!(false))),
        ("expand_v", fla("expand_v", json!(0.5))),
        ("heads", fla("num_v_heads", json!(4))),
        ("dla.schedule", dla(json!({"schedule": "offline"}))),
        ("dla.tau", dla(json!({"tau": 0.5}))),
        ("dla.block", dla(json!({"schedule": "fixed"}))),
        ("capacity", dla(json!({"capacity": 65}))),
        ("norm", dla(json!({"norm": "l2"}))),
        ("epsilon", dla(json!({"epsilon": -1.0}))),
        ("epsilon", dla(json!({"epsilon": 1e39}))),
    ] {
        assert_refused(key, load(&config, safetensors(&tensors())), key);
    }
    let layers = hugging_face("num_hidden_layers", json!(1 << 20));
    assert_refused(
        "layers",
        load(&layers, safetensors(&tensors())),
        "backbone.layers.2",
    );
}

/// 240 channels as a factor of 176, written in decimals: 176 · (240 / 176) is 239.99999999999997.
#[test]
fn a_factor_in_decimals_gives_whole_channels() {
    let mut json = mamba2_json();
    let hidden = json["hidden_size"].as_f64().expect("a size");
    let channels = json["expand"].as_f64().expect("a factor") * hidden;
    for off in [1.0 - 1e-7, 1.0 + 1e-7] {
        json["expand"] = json!(channels / hidden * off);
        load(&json.to_string(), safetensors(&tensors())).expect("the same channels");
    }
    json["expand"] = json!((channels + 1.0) / hidden);
    let refused = load(&json.to_string(), safetensors(&tensors()));
    assert_refused("another factor", refused, "num_heads");
}

#[test]
fn absurd_sizes_are_refused_without_being_allocated() {
    let mut huge = mamba2_json();
    let most = 1u64 << 20;
    for (key, size) in [
        ("num_hidden_layers", most),
        ("vocab_size", most),
        ("hidden_size", most),
        ("num_heads", most),
        ("head_dim", 256),
        ("state_size", 256),
        ("conv_kernel", most),
        ("n_groups", most),
        ("expand", 256),
    ] {
        huge[key] = json!(size);
    }
    huge["dla"] = json!({"capacity": 64});
    let files = vec![("weights".to_owned(), safetensors(&tensors()))];
    let checkpoint = Checkpoint::from_bytes(&huge.to_string(), files).expect("only settings yet");
    assert!(checkpoint.config().state_bytes() > 1 << 60);
    assert!(!checkpoint.faults().is_empty());
    assert_refused("huge", checkpoint.model(), "backbone.embeddings.weight");
}

/// An empty folder of this test's own.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("dla-model-{}-{name}", std::process::id()));
    fs::create_dir_all(&folder).expect("a temporary folder");
    folder
}

#[test]
fn kind_45_shards_and_what_may_be_wrong_with_their_index() {
    let folder = folder("shards");
    let write = |name: &str, bytes: &[u8]| fs::write(folder.join(name), bytes).expect("written");
    write("config.json", mamba2_json().to_string().as_bytes());
    let all = tensors();
    let (first, second) = all.split_at(9);
    write("a.safetensors", &safetensors(first));
    write("b.safetensors", &safetensors(second));
    let entry = |file: &'static str| {
        move |(name, ..): &(String, Vec<usize>, Vec<f32>)| (name.clone(), json!(file))
    };
    let parts = first.iter().map(entry("a.safetensors"));
    let mut map: serde_json::Map<_, _> = parts
        .chain(second.iter().map(entry("b.safetensors")))
        .collect();
    let index = |map: &Value| {
        write(
            "model.safetensors.index.json",
            json!({"weight_map": map}).to_string().as_bytes(),
        );
    };
    index(&Value::from(map.clone()));
    let model = Model::load(&folder).expect("two sound shards");
    let want = in_pieces(&random(&mamba2().0), &ids(9), &[]);
    assert_eq!(in_pieces(&model, &ids(9), &[]), want);
    for (name, file, fault) in [
        ("outside", json!("../a.safetensors"), "a file's name"),
        ("absolute", json!("/etc/passwd"), "a file's name"),
        ("a number", json!(7), "a file's name"),
        ("absent", json!("c.safetensors"), "c.safetensors"),
        (
            "in another file",
            json!("a.safetensors"),
            "index.json, lm_head.weight: expected a tensor of a.safetensors",
        ),
    ] {
        let mut map = map.clone();
        map.insert("lm_head.weight".into(), file);
        index(&map.into());
        assert_refused(name, Model::load(&folder), fault);
    }
    // What the index takes from one file may lie in another too: changed there, the model stays the same.
    let mut overlaid = all[8..].to_vec();
    overlaid[0].2.iter_mut().for_each(|x| *x += 1.0);
    write("b.safetensors", &safetensors(&overlaid));
    index(&Value::from(map.clone()));
    let checkpoint = Checkpoint::open(&folder).expect("two sound shards");
    assert!(checkpoint.skipped().is_empty());
    let model = checkpoint.model().expect("every tensor once");
    assert_eq!(in_pieces(&model, &ids(9), &[]), want);
    // What the index does not name is not there.
    let last = all.last().expect("tensors").0.clone();
    map.remove(&last);
    index(&Value::from(map));
    let checkpoint = Checkpoint::open(&folder).expect("two sound shards");
    assert_eq!(checkpoint.skipped(), std::slice::from_ref(&last));
    assert_refused("not named", checkpoint.model(), &last);
    fs::remove_dir_all(&folder).expect("removed");
}

#[test]
fn a_pickle_is_refused_with_the_command_that_converts_it() {
    let folder = folder("pickle");
    fs::write(folder.join("config.json"), mamba2_json().to_string()).expect("written");
    assert_refused("nothing", Model::load(&folder), "model.safetensors");
    fs::write(folder.join("pytorch_model.bin"), b"\x80\x02").expect("written");
    assert_refused("pickle", Model::load(&folder), "weights_only=True");
    fs::remove_dir_all(&folder).expect("removed");
}
