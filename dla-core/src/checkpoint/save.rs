//! A model's settings and tensors as files that [`Checkpoint`](super::Checkpoint) and others read.

use std::io::Write;

use serde_json::{Map, Number, Value, json};

use super::{families, json, special};
use crate::config::Schedule;
use crate::error::{Error, Result};
use crate::model::{
    AttentionConfig, DlaConfig, Family, GatedDeltaConfig, Mamba2Config, MixerConfig, ModelConfig,
    ModelTensors,
};

impl ModelConfig {
    /// config.json of these settings, with the keys of their family.
    ///
    /// # Errors
    /// For settings that no model of the family has, or that are not served.
    ///
    /// ```
    /// use dla_core::checkpoint::Checkpoint;
    /// let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/golden/model/gdn_fla");
    /// let config = Checkpoint::open(folder.as_ref())?.config().clone();
    /// assert!(config.to_json()?.contains("gated_deltanet"));
    /// # Ok::<(), dla_core::Error>(())
    /// ```
    pub fn to_json(&self) -> Result<String> {
        let mut object = match (&self.mixer, self.family) {
            (MixerConfig::Mamba2(mixer), Family::Mamba2) => mamba2(self, mixer),
            (MixerConfig::Mamba2(mixer), Family::StateSpaces) => state_spaces(self, mixer),
            (MixerConfig::GatedDelta(mixer), Family::GatedDeltaNet) => gated_delta(self, mixer),
            (MixerConfig::Attention(mixer), Family::Attention) => attention(self, mixer),
            (_, family) => {
                let expected = format!("a mixer of {family}");
                return Err(Error::input("save", "mixer", expected, "another"));
            }
        };
        special::add(&mut object, &self.special);
        if let Some(config) = &self.dla {
            object.insert("dla".into(), dla(config)?);
        }
        let text = format!("{:#}\n", Value::Object(object));
        // What is written is read as it was.
        let read = json::parse("config.json", &text).and_then(|object| families::read(&object));
        let read = read.map_err(|error| error.within("save"))?;
        if read != *self {
            let expected = format!("settings that config.json of {} can hold", self.family);
            return Err(Error::unsupported(
                "save",
                "config.json",
                expected,
                "others",
            ));
        }
        Ok(text)
    }
}

impl<T: AsRef<[f32]>> ModelTensors<T> {
    /// Writes model.safetensors: these tensors as f32 under their checkpoint names.
    ///
    /// # Errors
    /// For tensors that are not those of a model of these settings, and what `out` refuses.
    pub fn save(&self, config: &ModelConfig, out: &mut impl Write) -> Result<()> {
        let names = ModelTensors::names(config)?;
        let tensors = names.each_ref().zip(self.each_ref())?;
        let mut arrays = Vec::new();
        for (name, values) in &tensors {
            let values = values.as_ref();
            if values.len() != name.len() {
                let argument = format!("tensor {}", name.name);
                let expected = format!("the {} values of {:?}", name.len(), name.shape);
                return Err(Error::input("save", argument, expected, values.len()));
            }
            arrays.push((name.name.as_str(), name.shape.as_slice(), values));
        }
        crate::tensors::write(out, &arrays).map_err(|error| {
            let expected = "to be written";
            Error::file("save", "model.safetensors", expected, error)
        })
    }
}

/// The object, for `json!` makes one.
fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

/// The shortest number that is this f32, so that a file says 1e-5 and not what f64 makes of it.
fn short(x: f32) -> Value {
    let exact: Option<f64> = x.to_string().parse().ok();
    match exact.and_then(Number::from_f64) {
        Some(number) => Value::Number(number),
        None => json!({ "__float__": if x > 0.0 { "Infinity" } else { "-Infinity" } }),
    }
}

/// `a / b`, whole where it is.
fn ratio(a: usize, b: usize) -> Value {
    if b != 0 && a.is_multiple_of(b) {
        json!(a / b)
    } else {
        json!(a as f64 / b as f64)
    }
}

/// Adds the range of Δ under `key`, but for the families' default, which JSON cannot spell.
fn add_range(object: &mut Map<String, Value>, key: &str, range: [f32; 2]) {
    if range != [0.0, f32::INFINITY] {
        object.insert(key.into(), json!(range.map(short)));
    }
}

fn mamba2(config: &ModelConfig, mixer: &Mamba2Config) -> Map<String, Value> {
    let mut settings = object(json!({
        "architectures": ["Mamba2ForCausalLM"],
        "model_type": "mamba2",
        "hidden_size": config.hidden,
        "num_hidden_layers": config.layers,
        "vocab_size": config.vocabulary,
        "num_heads": mixer.heads,
        "head_dim": mixer.head_dim,
        "n_groups": mixer.groups,
        "state_size": mixer.state,
        "conv_kernel": mixer.conv_width,
        "expand": ratio(mixer.inner(), config.hidden),
        "use_conv_bias": mixer.conv_bias,
        "use_bias": mixer.bias,
        "hidden_act": "silu",
        "rms_norm": true,
        "layer_norm_epsilon": short(config.norm_epsilon),
        "tie_word_embeddings": config.tied,
        "torch_dtype": "float32",
    }));
    add_range(&mut settings, "time_step_limit", mixer.dt_limit);
    settings
}

fn state_spaces(config: &ModelConfig, mixer: &Mamba2Config) -> Map<String, Value> {
    let mut ssm = object(json!({
        "layer": "Mamba2",
        "d_state": mixer.state,
        "d_conv": mixer.conv_width,
        "expand": ratio(mixer.inner(), config.hidden),
        "headdim": mixer.head_dim,
        "ngroups": mixer.groups,
        "conv_bias": mixer.conv_bias,
        "bias": mixer.bias,
    }));
    add_range(&mut ssm, "dt_limit", mixer.dt_limit);
    object(json!({
        "d_model": config.hidden,
        "d_intermediate": 0,
        "n_layer": config.layers,
        "vocab_size": config.vocabulary,
        "pad_vocab_size_multiple": 1,
        "rms_norm": true,
        "tie_embeddings": config.tied,
        "ssm_cfg": ssm,
    }))
}

fn gated_delta(config: &ModelConfig, mixer: &GatedDeltaConfig) -> Map<String, Value> {
    object(json!({
        "architectures": ["GatedDeltaNetForCausalLM"],
        "model_type": "gated_deltanet",
        "hidden_size": config.hidden,
        "num_hidden_layers": config.layers,
        "vocab_size": config.vocabulary,
        "num_heads": mixer.key_heads,
        "num_v_heads": mixer.value_heads,
        "head_dim": mixer.key_dim,
        "expand_v": ratio(mixer.value_dim, mixer.key_dim),
        "use_short_conv": true,
        "conv_size": mixer.conv_width,
        "use_gate": mixer.gate,
        "allow_neg_eigval": mixer.negative_eigenvalues,
        "intermediate_size": mixer.intermediate,
        "hidden_act": "swish",
        "norm_eps": short(config.norm_epsilon),
        "tie_word_embeddings": config.tied,
        "torch_dtype": "float32",
    }))
}

fn attention(config: &ModelConfig, mixer: &AttentionConfig) -> Map<String, Value> {
    object(json!({
        "model_type": "dla_attention",
        "hidden_size": config.hidden,
        "num_hidden_layers": config.layers,
        "vocab_size": config.vocabulary,
        "num_heads": mixer.heads,
        "head_dim": mixer.head_dim,
        "conv_size": mixer.conv_width,
        "intermediate_size": mixer.intermediate,
        "norm_eps": short(config.norm_epsilon),
        "tie_word_embeddings": config.tied,
    }))
}

/// The section `dla`.
fn dla(config: &DlaConfig) -> Result<Value> {
    let operator = config.operator;
    let mut section = object(json!({
        "capacity": config.capacity,
        "norm": operator.norm.to_string(),
        "merge": operator.merge.to_string(),
        "epsilon": operator.epsilon,
    }));
    let schedule = match operator.schedule {
        Schedule::Dynamic => "dynamic",
        Schedule::Single => "single",
        Schedule::Fenwick => "fenwick",
        Schedule::Fixed { block } => {
            section.insert("block".into(), json!(block));
            "fixed"
        }
        Schedule::Offline => {
            let expected = "dynamic, single, fenwick or fixed";
            return Err(Error::unsupported("save", "schedule", expected, "offline"));
        }
    };
    section.insert("schedule".into(), json!(schedule));
    Ok(Value::Object(section))
}
