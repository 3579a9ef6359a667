//! Models of any settings with random weights, in memory and as files.

use std::path::{Path, PathBuf};

use dla_core::model::{
    AttentionConfig, DlaConfig, Family, GatedDeltaConfig, Mamba2Config, MixerConfig, ModelConfig,
    Weights,
};
use dla_core::{Config, Model, Result};
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::{Value, json};

/// A golden model's folder.
pub(crate) fn golden(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    root.join("../tests/golden/model").join(name)
}

/// Random weights that remember what was asked for.
#[derive(Debug, Default)]
pub(crate) struct RandomWeights {
    state: u64,
    pub(crate) tensors: Vec<(String, Vec<usize>, Vec<f32>)>,
}

impl RandomWeights {
    /// A number in −1 to 1.
    fn number(&mut self) -> f32 {
        self.state = self
            .state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
}

impl Weights for RandomWeights {
    type Tensor = Vec<f32>;

    fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let inputs = shape.last().copied().unwrap_or(1).max(2) as f32;
        let (offset, size) = match name {
            _ if name.ends_with("tau") => (1.2, 0.2),
            _ if name.ends_with("norm.weight") || name.ends_with("norm_f.weight") => (1.0, 0.3),
            _ if name.ends_with("conv1d.weight") => (0.0, 1.0),
            _ if shape.len() == 1 => (0.0, 0.5),
            _ => (0.0, 2.0 / inputs.sqrt()),
        };
        let len: usize = shape.iter().product();
        let values: Vec<f32> = (0..len).map(|_| offset + size * self.number()).collect();
        self.tensors
            .push((name.to_owned(), shape.to_vec(), values.clone()));
        Ok(values)
    }
}

/// A small Mamba-2 with nothing round: 6 heads of 5 in 3 groups, state 7.
pub(crate) fn mamba2() -> (ModelConfig, Mamba2Config) {
    let mixer = Mamba2Config {
        heads: 6,
        head_dim: 5,
        groups: 3,
        state: 7,
        conv_width: 4,
        conv_bias: true,
        bias: false,
        dt_limit: [0.0, f32::INFINITY],
    };
    let config = ModelConfig {
        family: Family::Mamba2,
        hidden: 15,
        layers: 2,
        vocabulary: 23,
        tied: false,
        norm_epsilon: 1e-5,
        mixer: MixerConfig::Mamba2(mixer.clone()),
        dla: None,
    };
    (config, mixer)
}

/// A small Gated DeltaNet: 6 value heads of 5 over 3 key heads of 7.
pub(crate) fn gated_delta() -> (ModelConfig, GatedDeltaConfig) {
    let mixer = GatedDeltaConfig {
        key_heads: 3,
        value_heads: 6,
        key_dim: 7,
        value_dim: 5,
        conv_width: 4,
        gate: true,
        negative_eigenvalues: false,
        intermediate: 20,
    };
    let config = ModelConfig {
        family: Family::GatedDeltaNet,
        mixer: MixerConfig::GatedDelta(mixer.clone()),
        norm_epsilon: 1e-6,
        ..mamba2().0
    };
    (config, mixer)
}

/// A small softmax attention: 3 heads of 5.
pub(crate) fn attention() -> ModelConfig {
    ModelConfig {
        family: Family::Attention,
        mixer: MixerConfig::Attention(AttentionConfig {
            heads: 3,
            head_dim: 5,
            conv_width: 4,
            intermediate: 20,
        }),
        ..gated_delta().0
    }
}

/// `plain` with the dynamic schedule.
pub(crate) fn dynamic(plain: ModelConfig, capacity: usize) -> ModelConfig {
    let operator = Config::new(plain.backbone());
    let dla = Some(DlaConfig { capacity, operator });
    ModelConfig { dla, ..plain }
}

/// The model of these settings with random weights.
pub(crate) fn random(config: &ModelConfig) -> Model {
    Model::build(config, &mut RandomWeights::default()).expect("weights for everything")
}

/// `count` token ids below 23.
pub(crate) fn ids(count: u32) -> Vec<u32> {
    (0..count).map(|t| t * t * 7 % 23).collect()
}

/// The logits of `ids` in pieces of the given lengths; what is left is the last piece.
pub(crate) fn in_pieces(model: &Model, ids: &[u32], pieces: &[usize]) -> Vec<f32> {
    let mut session = model.session();
    let (mut logits, mut rest) = (Vec::new(), ids);
    for &piece in pieces {
        let (now, later) = rest.split_at(piece);
        logits.extend(model.prefill(&mut session, now).expect("valid ids"));
        rest = later;
    }
    logits.extend(model.prefill(&mut session, rest).expect("valid ids"));
    logits
}

/// ‖got − want‖ / ‖want‖; NaN and other lengths are infinitely far.
pub(crate) fn distance(got: &[f32], want: &[f32]) -> f64 {
    if got.len() != want.len() || got.iter().any(|x| !x.is_finite()) {
        return f64::INFINITY;
    }
    let square = |x: f64| x * x;
    let pairs = got.iter().zip(want);
    let gap: f64 = pairs
        .map(|(&a, &b)| square(f64::from(a) - f64::from(b)))
        .sum();
    let size: f64 = want.iter().map(|&b| square(f64::from(b))).sum();
    (gap / size).sqrt()
}

/// A safetensors file of these tensors as f32.
pub(crate) fn safetensors(tensors: &[(String, Vec<usize>, Vec<f32>)]) -> Vec<u8> {
    let bytes: Vec<Vec<u8>> = tensors
        .iter()
        .map(|(.., values)| values.iter().flat_map(|x| x.to_le_bytes()).collect())
        .collect();
    let views = tensors.iter().zip(&bytes).map(|((name, shape, _), bytes)| {
        let view = TensorView::new(Dtype::F32, shape.clone(), bytes).expect("shapes fit");
        (name.as_str(), view)
    });
    safetensors::serialize(views, None).expect("a file")
}

/// config.json of [`mamba2`], as Hugging Face writes it.
pub(crate) fn mamba2_json() -> Value {
    json!({
        "model_type": "mamba2", "hidden_size": 15, "num_hidden_layers": 2, "vocab_size": 23,
        "num_heads": 6, "head_dim": 5, "n_groups": 3, "state_size": 7, "conv_kernel": 4,
        "expand": 2, "tie_word_embeddings": false, "time_step_limit": [0.0, {"__float__": "Infinity"}],
    })
}

/// config.json of [`mamba2`], as state-spaces writes it.
pub(crate) fn state_spaces_json() -> Value {
    json!({
        "d_model": 15, "d_intermediate": 0, "n_layer": 2, "vocab_size": 20, "rms_norm": true,
        "ssm_cfg": {"layer": "Mamba2", "headdim": 5, "ngroups": 3, "d_state": 7},
        "attn_layer_idx": [], "attn_cfg": {}, "pad_vocab_size_multiple": 23, "tie_embeddings": false,
    })
}

/// config.json of [`attention`].
pub(crate) fn attention_json() -> Value {
    json!({
        "model_type": "dla_attention", "hidden_size": 15, "num_hidden_layers": 2, "vocab_size": 23,
        "num_heads": 3, "head_dim": 5, "conv_size": 4, "intermediate_size": 20,
        "tie_word_embeddings": false, "norm_eps": 1e-6,
    })
}

/// config.json of [`gated_delta`], as fla writes it.
pub(crate) fn gated_delta_json() -> Value {
    json!({
        "model_type": "gated_deltanet", "hidden_size": 15, "num_hidden_layers": 2,
        "vocab_size": 23, "num_heads": 3, "num_v_heads": 6, "head_dim": 7,
        "expand_v": 0.7142857142857143, "conv_size": 4, "intermediate_size": 20, "attn": null,
        "tie_word_embeddings": false, "norm_eps": 1e-6,
    })
}
