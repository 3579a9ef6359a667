//! Every setting of the mixers: any split gives the same, and the setting does what it says.

use dla_core::checkpoint::{Checkpoint, Upcycle};
use dla_core::model::{
    DlaConfig, Family, GatedDeltaConfig, Mamba2Config, MixerConfig, ModelConfig,
};
use dla_core::{Config, Model, Schedule};
use serde_json::Value;

use crate::support::*;

/// Whole = pieces = steps, within rounding.
fn assert_consistent(name: &str, model: &Model) {
    let ids = ids(70);
    let whole = in_pieces(model, &ids, &[]);
    assert_eq!(whole.len(), ids.len() * model.config().vocabulary);
    for pieces in [&[1, 0, 2][..], &[63, 1], &[65], &[1; 69]] {
        let distance = distance(&in_pieces(model, &ids, pieces), &whole);
        assert!(distance < 1e-4, "{name}, pieces {pieces:?}: {distance}");
    }
}

fn logits(config: &ModelConfig) -> Vec<f32> {
    in_pieces(&random(config), &ids(40), &[])
}

fn mamba2_with(change: impl FnOnce(&mut Mamba2Config)) -> ModelConfig {
    let (config, mut mixer) = mamba2();
    change(&mut mixer);
    let mixer = MixerConfig::Mamba2(mixer);
    ModelConfig { mixer, ..config }
}

fn gated_delta_with(change: impl FnOnce(&mut GatedDeltaConfig)) -> ModelConfig {
    let (config, mut mixer) = gated_delta();
    change(&mut mixer);
    let mixer = MixerConfig::GatedDelta(mixer);
    ModelConfig { mixer, ..config }
}

#[test]
fn mamba2_in_every_setting() {
    let cases = [
        ("as it is", mamba2().0),
        ("no convolution bias", mamba2_with(|m| m.conv_bias = false)),
        ("convolution width 3", mamba2_with(|m| m.conv_width = 3)),
        ("convolution width 1", mamba2_with(|m| m.conv_width = 1)),
        ("projection biases", mamba2_with(|m| m.bias = true)),
        ("clamped steps", mamba2_with(|m| m.dt_limit = [0.5, 0.7])),
        ("one group", mamba2_with(|m| m.groups = 1)),
        (
            "tied head",
            ModelConfig {
                tied: true,
                ..mamba2().0
            },
        ),
    ];
    let plain = logits(&cases[0].1);
    for (name, config) in &cases {
        assert_consistent(name, &random(config));
        let same = distance(&logits(config), &plain) < 1e-3;
        assert_eq!(same, *name == "as it is", "{name} changes the logits");
    }
}

#[test]
fn gated_deltanet_in_every_setting() {
    let cases = [
        ("as it is", gated_delta().0),
        (
            "negative eigenvalues",
            gated_delta_with(|d| d.negative_eigenvalues = true),
        ),
        ("no gate", gated_delta_with(|d| d.gate = false)),
        (
            "convolution width 3",
            gated_delta_with(|d| d.conv_width = 3),
        ),
        (
            "a key head for each value head",
            gated_delta_with(|d| d.key_heads = 6),
        ),
        (
            "tied head",
            ModelConfig {
                tied: true,
                ..gated_delta().0
            },
        ),
    ];
    let plain = logits(&cases[0].1);
    for (name, config) in &cases {
        assert_consistent(name, &random(config));
        let same = distance(&logits(config), &plain) < 1e-3;
        assert_eq!(same, *name == "as it is", "{name} changes the logits");
    }
}

#[test]
fn attention_in_every_setting() {
    let config = attention();
    assert_consistent("as it is", &random(&config));
    let tied = ModelConfig {
        tied: true,
        ..config.clone()
    };
    assert_consistent("tied head", &random(&tied));
    let got = checkpoint(&config, &attention_json());
    let error = Upcycle::default().config(&got).expect_err("no states");
    assert!(error.is_unsupported(), "{error}");
    let got = in_pieces(&got.model().expect("sound tensors"), &ids(20), &[]);
    assert_eq!(got, logits(&config)[..got.len()]);
    let mut json = attention_json();
    json["dla"] = serde_json::json!({ "capacity": 4 });
    let error = Checkpoint::from_bytes(&json.to_string(), Vec::new()).expect_err("no states");
    assert!(error.to_string().contains("no states"), "{error}");
}

#[test]
fn every_schedule_of_dla() {
    let schedules = [
        Schedule::Dynamic,
        Schedule::Fenwick,
        Schedule::Fixed { block: 5 },
        Schedule::Single,
    ];
    for plain in [mamba2().0, gated_delta().0] {
        for schedule in schedules {
            let operator = Config {
                schedule,
                ..Config::new(plain.backbone())
            };
            let dla = Some(DlaConfig {
                capacity: 8,
                operator,
            });
            let config = ModelConfig {
                dla,
                ..plain.clone()
            };
            assert_consistent(&format!("{} {schedule:?}", plain.family), &random(&config));
        }
    }
}

/// A checkpoint in memory of `config` with random weights, as its family writes it.
fn checkpoint(config: &ModelConfig, json: &Value) -> Checkpoint {
    let mut weights = RandomWeights::default();
    Model::build(config, &mut weights).expect("weights for everything");
    let files = vec![("weights".to_owned(), safetensors(&weights.tensors))];
    let checkpoint = Checkpoint::from_bytes(&json.to_string(), files).expect("served");
    assert_eq!(checkpoint.config(), config, "settings as parsed");
    assert_eq!(checkpoint.faults(), []);
    checkpoint
}

#[test]
fn families_say_the_same_in_their_own_words() {
    let hugging_face = checkpoint(&mamba2().0, &mamba2_json());
    let family = Family::StateSpaces;
    let state_spaces = checkpoint(
        &ModelConfig {
            family,
            ..mamba2().0
        },
        &state_spaces_json(),
    );
    let run = |checkpoint: &Checkpoint| {
        in_pieces(&checkpoint.model().expect("sound tensors"), &ids(20), &[])
    };
    assert_eq!(run(&hugging_face), run(&state_spaces));
    assert_eq!(
        run(&hugging_face),
        in_pieces(&random(&mamba2().0), &ids(20), &[])
    );
}

#[test]
fn upcycled_is_plain_until_tuned() {
    for (config, json) in [
        (mamba2().0, mamba2_json()),
        (gated_delta().0, gated_delta_json()),
    ] {
        let plain = checkpoint(&config, &json);
        for upcycle in [
            Upcycle::default(),
            Upcycle {
                capacity: 3,
                tau: 1.3,
            },
        ] {
            let mut bytes = Vec::new();
            upcycle.weights(&plain, &mut bytes).expect("written");
            let text = upcycle.config(&plain).expect("plain");
            let files = vec![("upcycled".to_owned(), bytes)];
            let upcycled = Checkpoint::from_bytes(&text, files).expect("served");
            assert!(upcycle.config(&upcycled).is_err(), "DLA already");
            let model = upcycled.model().expect("sound tensors");
            let want = in_pieces(&plain.model().expect("sound tensors"), &ids(70), &[]);
            for pieces in [&[][..], &[1; 69]] {
                let distance = distance(&in_pieces(&model, &ids(70), pieces), &want);
                assert!(distance < 1e-4, "{} {upcycle:?}: {distance}", config.family);
            }
        }
    }
}
