//! An untrained model, for a checkout without the shipped one: it shows how states open and merge, and writes noise.

use std::fs;
use std::path::Path;

use dla_core::checkpoint::Checkpoint;
use dla_core::model::{Initial, ModelTensors, Weights};
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::{Value, json};

use crate::Result;

const SEED: u64 = 11;
/// Some heads open a state at every token, some at one in ten, some never.
const TAU: f32 = 0.57;

/// A tensor with its name and shape.
type Tensor = (String, Vec<usize>, Vec<u8>);

/// Gathers what a source gives.
struct Gather {
    source: Initial,
    tensors: Vec<Tensor>,
}

impl Weights for Gather {
    type Tensor = ();

    fn tensor(&mut self, name: &str, shape: &[usize]) -> dla_core::Result<()> {
        let values = self.source.tensor(name, shape)?;
        let bytes = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        self.tensors.push((name.to_owned(), shape.to_vec(), bytes));
        Ok(())
    }
}

/// Writes a model directory.
///
/// # Errors
/// When a file cannot be written.
pub(crate) fn write(folder: &Path) -> Result<()> {
    let text = format!("{:#}\n", config());
    let config = Checkpoint::from_bytes(&text, Vec::new())?;
    let source = Initial::new(config.config(), SEED, TAU)?;
    let tensors = Vec::new();
    let mut gather = Gather { source, tensors };
    ModelTensors::load(config.config(), &mut gather)?;
    let views = gather.tensors.iter().map(|(name, shape, bytes)| {
        let view = TensorView::new(Dtype::F32, shape.clone(), bytes)?;
        Ok((name.as_str(), view))
    });
    let views = views.collect::<Result<Vec<_>>>()?;
    fs::create_dir_all(folder)?;
    fs::write(
        folder.join("model.safetensors"),
        safetensors::serialize(views, None)?,
    )?;
    fs::write(folder.join("config.json"), text)?;
    Ok(())
}

fn config() -> Value {
    json!({
        "model_type": "mamba2", "hidden_size": 64, "num_hidden_layers": 3, "vocab_size": 256,
        "expand": 2, "head_dim": 32, "num_heads": 4, "n_groups": 1, "state_size": 32,
        "conv_kernel": 4, "use_conv_bias": true, "use_bias": false, "hidden_act": "silu",
        "layer_norm_epsilon": 1e-5, "tie_word_embeddings": true,
        "dla": {
            "capacity": 12, "schedule": "dynamic", "norm": "rms", "merge": "density", "epsilon": 1e-6,
        },
    })
}
