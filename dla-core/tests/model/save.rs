//! What is written as a checkpoint is read as it was.

use dla_core::checkpoint::Checkpoint;
use dla_core::model::{
    Family, GatedDeltaConfig, Mamba2Config, MixerConfig, ModelConfig, ModelTensors,
};
use dla_core::{MergeCost, Norm, Schedule};

use crate::support::{RandomWeights, attention, dynamic, gated_delta, mamba2};

/// Settings of every family, with every choice that a file can hold.
fn settings() -> Vec<ModelConfig> {
    let (plain, mixer) = mamba2();
    let biased = Mamba2Config {
        bias: true,
        conv_bias: false,
        dt_limit: [0.001, 0.1],
        ..mixer
    };
    let (delta, mixer) = gated_delta();
    let ungated = GatedDeltaConfig {
        gate: false,
        negative_eigenvalues: true,
        ..mixer
    };
    let mut merging = dynamic(plain.clone(), 5);
    if let Some(dla) = &mut merging.dla {
        dla.operator.merge = MergeCost::Ward;
        dla.operator.norm = Norm::None;
        dla.operator.epsilon = 1e-6;
    }
    let mut fixed = dynamic(delta.clone(), 3);
    if let Some(dla) = &mut fixed.dla {
        dla.operator.schedule = Schedule::Fixed { block: 9 };
    }
    vec![
        ModelConfig {
            mixer: MixerConfig::Mamba2(biased),
            tied: true,
            ..plain.clone()
        },
        ModelConfig {
            family: Family::StateSpaces,
            ..plain.clone()
        },
        ModelConfig {
            mixer: MixerConfig::GatedDelta(ungated),
            norm_epsilon: 3e-7,
            ..delta.clone()
        },
        plain,
        delta,
        attention(),
        merging,
        fixed,
    ]
}

#[test]
fn settings_and_tensors_come_back_equal() {
    for config in settings() {
        let tensors = ModelTensors::load(&config, &mut RandomWeights::default());
        let tensors = tensors.expect("weights for everything");
        let text = config.to_json().expect("settings that can be written");
        let mut bytes = Vec::new();
        tensors.save(&config, &mut bytes).expect("the tensors fit");
        let files = vec![("model.safetensors".to_owned(), bytes)];
        let read = Checkpoint::from_bytes(&text, files).expect("a checkpoint");
        assert_eq!(read.config(), &config, "{text}");
        let mut weights = read.weights().expect("no faults");
        let back = ModelTensors::load(&config, &mut weights).expect("all tensors");
        assert_eq!(back, tensors, "{text}");
    }
}

#[test]
fn what_a_file_cannot_hold_is_refused() {
    let mut offline = dynamic(mamba2().0, 4);
    if let Some(dla) = &mut offline.dla {
        dla.operator.schedule = Schedule::Offline;
    }
    let wrong = [
        offline,
        ModelConfig {
            family: Family::GatedDeltaNet,
            ..mamba2().0
        },
        // state-spaces' files do not tell it.
        ModelConfig {
            family: Family::StateSpaces,
            norm_epsilon: 1e-6,
            ..mamba2().0
        },
        ModelConfig {
            hidden: 0,
            ..mamba2().0
        },
        dynamic(attention(), 4),
    ];
    for config in wrong {
        let error = config.to_json().expect_err("not a file's settings");
        assert!(error.is_input() || error.is_unsupported(), "{error}");
        assert_eq!(error.op(), "save");
    }
}

#[test]
fn tensors_of_another_model_are_refused() {
    let config = mamba2().0;
    let tensors = ModelTensors::load(&config, &mut RandomWeights::default());
    let mut tensors = tensors.expect("weights for everything");
    tensors.norm.pop();
    let error = tensors
        .save(&config, &mut Vec::new())
        .expect_err("a value is missing");
    assert!(
        error.is_input() && error.argument().contains("norm_f.weight"),
        "{error}"
    );
    let error = tensors.save(&gated_delta().0, &mut Vec::new());
    assert!(error.expect_err("another form").is_input());
}
