//! What upcycling adds, tensor by tensor, and what it leaves as it was.

use dla_core::checkpoint::{Checkpoint, Upcycle};
use dla_core::tensors::TensorFile;
use serde_json::{Value, json};

use crate::support::{golden, safetensors};

/// A golden checkpoint, and what upcycling makes of it.
fn upcycled(name: &str, upcycle: &Upcycle) -> (Checkpoint, Value, TensorFile) {
    let plain = Checkpoint::open(&golden(name)).expect("a golden checkpoint");
    let config = upcycle.config(&plain).expect("a plain checkpoint");
    let config = serde_json::from_str(&config).expect("JSON");
    let mut bytes = Vec::new();
    upcycle.weights(&plain, &mut bytes).expect("written");
    let header = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
    assert_eq!(header % 8, 0, "{name}: tensors are aligned");
    let file = TensorFile::parse("upcycled".into(), bytes).expect("a safetensors file");
    (plain, config, file)
}

const MODELS: [(&str, &str); 2] = [
    ("mamba2_groups", "backbone.layers.{}.mixer.dla."),
    ("gdn_fla", "model.layers.{}.attn.dla."),
];

const SETTINGS: [Upcycle; 2] = [
    Upcycle {
        capacity: 30,
        tau: 0.6,
    },
    Upcycle {
        capacity: 3,
        tau: 1.3,
    },
];

/// softplus(L · W x + a) is 1 for every x: W is 0 and a is ln(e − 1), to the last bit of f32.
#[test]
fn kind_72_upcycling_adds_read_weights_of_one() {
    let bias = 0.541_324_85_f32; // ln(e − 1) = 0.54132485461291810…
    let softplus = f64::from(bias).exp().ln_1p();
    let off = (softplus - 1.0).abs();
    assert!(off < f64::from(f32::EPSILON) / 2.0, "{off:e}");
    assert_eq!(Upcycle::default(), SETTINGS[0]);
    for (name, stem) in MODELS {
        for upcycle in SETTINGS {
            let (plain, _, file) = upcycled(name, &upcycle);
            let config = plain.config();
            let (heads, k) = (config.dims().heads, upcycle.capacity);
            for layer in 0..config.layers {
                let stem = stem.replace("{}", &layer.to_string());
                let added: [(&str, &[usize], f32); 4] = [
                    ("tau", &[heads], upcycle.tau),
                    ("lambda_proj.weight", &[heads * k, config.hidden], 0.0),
                    ("lambda_scale", &[heads, k], 1.0),
                    ("lambda_bias", &[heads, k], bias),
                ];
                for (tensor, shape, want) in added {
                    let tensor = format!("{stem}{tensor}");
                    let values = file.require(&tensor).expect("added");
                    let values = values.values::<f32>("f32", shape).expect("its shape");
                    let same = values.iter().all(|x| x.to_bits() == want.to_bits());
                    assert!(same, "{name}, {tensor}: {:?}, not {want:?}", values.first());
                }
            }
        }
    }
}

/// Every other tensor keeps its bytes, every other setting its value.
#[test]
fn kind_72_upcycling_keeps_what_was_there() {
    for (name, _) in MODELS {
        let (_, config, file) = upcycled(name, &SETTINGS[1]);
        let source = golden(name);
        let plain = TensorFile::read(&source.join("model.safetensors")).expect("golden");
        let names = plain.names();
        assert_eq!(
            file.names().len(),
            names.len() + 4 * layers(&config),
            "{name}"
        );
        for tensor in names {
            let (got, want) = (file.require(&tensor), plain.require(&tensor));
            let (got, want) = (got.expect("kept"), want.expect("golden"));
            assert_eq!((got.dtype(), got.shape()), (want.dtype(), want.shape()));
            let same = got.bytes().expect("read") == want.bytes().expect("read");
            assert!(same, "{name}, {tensor}");
        }
        let text = std::fs::read_to_string(source.join("config.json")).expect("golden");
        let mut want: Value = serde_json::from_str(&text).expect("JSON");
        want["dla"] = json!({
            "capacity": 3, "schedule": "dynamic", "norm": "rms", "merge": "density", "epsilon": 1e-12,
        });
        assert_eq!(config, want, "{name}");
    }
}

fn layers(config: &Value) -> usize {
    config["num_hidden_layers"].as_u64().expect("a number") as usize
}

/// One tensor more than the family has: the survey refuses it before anything is written.
#[test]
fn kind_72_what_cannot_be_upcycled_is_refused_before_a_byte_is_written() {
    let read = |name: &str| std::fs::read(golden("mamba2_groups").join(name)).expect("golden");
    let config = String::from_utf8(read("config.json")).expect("UTF-8");
    let open = |config: &str, files| Checkpoint::from_bytes(config, files).expect("readable");
    let files = || vec![("weights".to_owned(), read("model.safetensors"))];
    let (whole, mut out) = (open(&config, files()), Vec::new());
    let bad = [
        Upcycle {
            tau: f32::NAN,
            ..SETTINGS[0]
        },
        Upcycle {
            capacity: 0,
            ..SETTINGS[0]
        },
        Upcycle {
            capacity: 65,
            ..SETTINGS[0]
        },
    ];
    for upcycle in bad {
        assert!(upcycle.config(&whole).is_err(), "{upcycle:?}");
        assert!(upcycle.weights(&whole, &mut out).is_err(), "{upcycle:?}");
    }
    // A setting of null is none; a section is DLA already.
    let with = |dla: Value| {
        let mut object: Value = serde_json::from_str(&config).expect("JSON");
        object["dla"] = dla;
        open(&object.to_string(), files())
    };
    SETTINGS[0].config(&with(Value::Null)).expect("plain");
    let error = SETTINGS[0].config(&with(json!({})));
    let error = error.expect_err("DLA already").to_string();
    assert!(error.contains("DLA already"), "{error}");
    // Weights that are missing.
    let empty = open(&config, vec![("weights".to_owned(), safetensors(&[]))]);
    let error = SETTINGS[0].weights(&empty, &mut out);
    assert!(error.is_err() && out.is_empty(), "{error:?}");
}
