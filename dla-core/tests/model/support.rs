//! Models of any settings with random weights, in memory and as files.

use std::path::{Path, PathBuf};

use dla_core::model::{DlaConfig, ModelConfig, Rows};
use dla_core::{Config, Model};
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::{Value, json};

pub(crate) use crate::models::{RandomWeights, attention, distance, gated_delta, ids, mamba2};

/// A golden model's folder.
pub(crate) fn golden(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    root.join("../tests/golden/model").join(name)
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

/// The logits of `ids` in pieces of the given lengths; what is left is the last piece.
pub(crate) fn in_pieces(model: &Model, ids: &[u32], pieces: &[usize]) -> Vec<f32> {
    let mut session = model.session();
    let (mut logits, mut rest) = (Vec::new(), ids);
    for &piece in pieces {
        let (now, later) = rest.split_at(piece);
        logits.extend(
            model
                .prefill(&mut session, now, Rows::All)
                .expect("valid ids"),
        );
        rest = later;
    }
    logits.extend(
        model
            .prefill(&mut session, rest, Rows::All)
            .expect("valid ids"),
    );
    logits
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
