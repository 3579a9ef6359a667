//! config.json of each family.

use serde_json::{Map, Value, json};

use super::json::Fields;
use super::special::special_ids;
use crate::config::{Backbone, Config, Schedule};
use crate::error::{Error, Result};
use crate::model::{
    AttentionConfig, DlaConfig, Family, GatedDeltaConfig, Mamba2Config, MixerConfig, ModelConfig,
    SpecialIds,
};

/// What `ssm_cfg` may hold; those not read only matter for training or speed.
const SSM_KEYS: [&str; 19] = [
    "layer",
    "d_state",
    "d_conv",
    "expand",
    "headdim",
    "d_ssm",
    "ngroups",
    "A_init_range",
    "D_has_hdim",
    "rmsnorm",
    "norm_before_gate",
    "dt_min",
    "dt_max",
    "dt_init_floor",
    "dt_limit",
    "bias",
    "conv_bias",
    "chunk_size",
    "use_mem_eff_path",
];

/// The settings in `object`.
pub(super) fn read(object: &Map<String, Value>) -> Result<ModelConfig> {
    let fields = Fields::new(object);
    fields.only("quantization_config", &[], "load the weights unquantised")?;
    let config = match fields.word("model_type")? {
        _ if fields.has("ssm_cfg") => state_spaces(&fields)?,
        Some("mamba2") => mamba2(&fields)?,
        Some("gated_deltanet") => gated_deltanet(&fields)?,
        Some("dla_attention") => attention(&fields)?,
        other => return Err(unknown(other.unwrap_or("none"))),
    };
    let dla = fields.section("dla", "dla.")?;
    let dla = dla.map(|section| self::dla(&section, config.backbone()));
    let config = ModelConfig {
        dla: dla.transpose()?,
        special: special_ids(&fields, config.vocabulary)?,
        ..config
    };
    let refuse = |error: Error| {
        let argument = "config.json";
        Error::unsupported("load", argument, "sizes that the operator serves", error)
    };
    config.dims().check().map_err(refuse)?;
    Ok(config)
}

fn unknown(got: &str) -> Error {
    let expected = "mamba2, gated_deltanet or dla_attention, or an ssm_cfg section";
    Error::unsupported("load", "config.json, model_type", expected, got)
}

/// Hugging Face's Mamba-2.
fn mamba2(fields: &Fields<'_>) -> Result<ModelConfig> {
    fields.only(
        "hidden_act",
        &[json!("silu"), json!("swish")],
        "only SiLU is served",
    )?;
    let hidden = fields.size("hidden_size")?;
    let mixer = Mamba2Config {
        heads: fields.size("num_heads")?,
        head_dim: fields.size("head_dim")?,
        groups: fields.size("n_groups")?,
        state: fields.size("state_size")?,
        conv_width: fields.size_or_none("conv_kernel")?.unwrap_or(4),
        conv_bias: fields.flag("use_conv_bias", true)?,
        bias: fields.flag("use_bias", false)?,
        dt_limit: step_limit(fields, "time_step_limit")?,
    };
    let inner = fields.number("expand", 2.0)? * hidden as f64;
    let product = (mixer.heads * mixer.head_dim) as f64;
    // A factor that is written in decimals need not give back the whole number that it was divided from.
    if (inner - product).abs() > 1e-5 * product {
        let expected = format!("expand · hidden_size / head_dim for {inner} values");
        return Err(fields.refuse("num_heads", expected, mixer.heads));
    }
    Ok(ModelConfig {
        family: Family::Mamba2,
        hidden,
        layers: fields.size("num_hidden_layers")?,
        vocabulary: fields.size("vocab_size")?,
        tied: fields.flag("tie_word_embeddings", false)?,
        norm_epsilon: fields.epsilon("layer_norm_epsilon", 1e-5)? as f32,
        mixer: MixerConfig::Mamba2(mixer),
        dla: None,
        special: SpecialIds::default(),
    })
}

/// state-spaces' Mamba-2, whose settings are arguments of its Python classes.
fn state_spaces(fields: &Fields<'_>) -> Result<ModelConfig> {
    fields.only(
        "rms_norm",
        &[json!(true)],
        "LayerNorm blocks are not served",
    )?;
    fields.only(
        "d_intermediate",
        &[json!(0)],
        "blocks with an MLP are not served",
    )?;
    fields.only(
        "attn_layer_idx",
        &[json!([])],
        "attention layers are not served",
    )?;
    let hidden = fields.size("d_model")?;
    let ssm = fields.section("ssm_cfg", "ssm_cfg.")?;
    let ssm = ssm.ok_or_else(|| fields.refuse("ssm_cfg", "an object", "none"))?;
    let vocabulary = fields.size("vocab_size")?;
    let multiple = fields.size_or_none("pad_vocab_size_multiple")?.unwrap_or(8);
    Ok(ModelConfig {
        family: Family::StateSpaces,
        hidden,
        layers: fields.size("n_layer")?,
        vocabulary: vocabulary.next_multiple_of(multiple),
        tied: fields.flag("tie_embeddings", true)?,
        norm_epsilon: 1e-5,
        mixer: MixerConfig::Mamba2(ssm_cfg(&ssm, hidden)?),
        dla: None,
        special: SpecialIds::default(),
    })
}

fn ssm_cfg(ssm: &Fields<'_>, hidden: usize) -> Result<Mamba2Config> {
    ssm.allow(&SSM_KEYS)?;
    if ssm.word("layer")? != Some("Mamba2") {
        let got = ssm.word("layer")?.unwrap_or("none, which means Mamba1");
        let argument = "config.json, ssm_cfg.layer";
        return Err(Error::unsupported("load", argument, "Mamba2", got));
    }
    ssm.only(
        "D_has_hdim",
        &[json!(false)],
        "D is one number for each head",
    )?;
    ssm.only("rmsnorm", &[json!(true)], "the gated norm is needed")?;
    ssm.only(
        "norm_before_gate",
        &[json!(false)],
        "the gate comes before the norm",
    )?;
    let inner = ssm.number("expand", 2.0)? * hidden as f64;
    ssm.only(
        "d_ssm",
        &[json!(inner as u64)],
        "all channels go through the operator",
    )?;
    let head_dim = ssm.size_or_none("headdim")?.unwrap_or(64);
    let heads = inner / head_dim as f64;
    if heads.fract() != 0.0 || !(1.0..=1_048_576.0).contains(&heads) {
        return Err(ssm.refuse("headdim", format!("a divisor of {inner}"), head_dim));
    }
    Ok(Mamba2Config {
        heads: heads as usize,
        head_dim,
        groups: ssm.size_or_none("ngroups")?.unwrap_or(1),
        state: ssm.size_or_none("d_state")?.unwrap_or(128),
        conv_width: ssm.size_or_none("d_conv")?.unwrap_or(4),
        conv_bias: ssm.flag("conv_bias", true)?,
        bias: ssm.flag("bias", false)?,
        dt_limit: step_limit(ssm, "dt_limit")?,
    })
}

/// The range that Δ is clamped to: below 0 states would grow, and an infinite Δ has no decay.
fn step_limit(fields: &Fields<'_>, key: &str) -> Result<[f32; 2]> {
    let [least, most] = fields.range(key, [0.0, f64::INFINITY])?;
    if most >= 0.0 && least < f32::INFINITY {
        return Ok([least, most]);
    }
    let expected = "a finite number, then one of at least 0";
    Err(fields.refuse(key, expected, format!("{least}, {most}")))
}

/// fla's Gated DeltaNet.
fn gated_deltanet(fields: &Fields<'_>) -> Result<ModelConfig> {
    fields.only("attn", &[], "attention layers are not served")?;
    fields.only(
        "hidden_act",
        &[json!("swish"), json!("silu")],
        "only SiLU is served",
    )?;
    fields.only(
        "use_short_conv",
        &[json!(true)],
        "the convolutions are needed",
    )?;
    fields.only(
        "conv_bias",
        &[json!(false)],
        "the convolutions have no bias",
    )?;
    let hidden = fields.size("hidden_size")?;
    let (key_heads, key_dim) = (fields.size("num_heads")?, fields.size("head_dim")?);
    Ok(ModelConfig {
        family: Family::GatedDeltaNet,
        hidden,
        layers: fields.size("num_hidden_layers")?,
        vocabulary: fields.size("vocab_size")?,
        tied: fields.flag("tie_word_embeddings", false)?,
        norm_epsilon: fields.epsilon("norm_eps", 1e-6)? as f32,
        mixer: MixerConfig::GatedDelta(GatedDeltaConfig {
            key_heads,
            value_heads: fields.size_or_none("num_v_heads")?.unwrap_or(key_heads),
            key_dim,
            value_dim: value_dim(fields, key_dim)?,
            conv_width: fields.size_or_none("conv_size")?.unwrap_or(4),
            gate: fields.flag("use_gate", true)?,
            negative_eigenvalues: fields.flag("allow_neg_eigval", false)?,
            intermediate: intermediate(fields, hidden)?,
        }),
        dla: None,
        special: SpecialIds::default(),
    })
}

/// This project's softmax attention, in the settings' names of Gated DeltaNet.
fn attention(fields: &Fields<'_>) -> Result<ModelConfig> {
    fields.only("dla", &[], "softmax attention has no states")?;
    let hidden = fields.size("hidden_size")?;
    Ok(ModelConfig {
        family: Family::Attention,
        hidden,
        layers: fields.size("num_hidden_layers")?,
        vocabulary: fields.size("vocab_size")?,
        tied: fields.flag("tie_word_embeddings", false)?,
        norm_epsilon: fields.epsilon("norm_eps", 1e-6)? as f32,
        mixer: MixerConfig::Attention(AttentionConfig {
            heads: fields.size("num_heads")?,
            head_dim: fields.size("head_dim")?,
            conv_width: fields.size_or_none("conv_size")?.unwrap_or(4),
            intermediate: intermediate(fields, hidden)?,
        }),
        dla: None,
        special: SpecialIds::default(),
    })
}

/// `head_dim · expand_v`, which must be whole.
fn value_dim(fields: &Fields<'_>, key_dim: usize) -> Result<usize> {
    let expand = fields.number("expand_v", 2.0)?;
    let exact = key_dim as f64 * expand;
    let whole = exact.round();
    if !(1.0..=65_536.0).contains(&whole) || (exact - whole).abs() > 1e-5 * whole {
        let expected = format!("a factor that makes {key_dim} whole");
        return Err(fields.refuse("expand_v", expected, expand));
    }
    Ok(whole as usize)
}

/// The MLP's width: given, or two thirds of `hidden · hidden_ratio` rounded up to a multiple of 256.
fn intermediate(fields: &Fields<'_>, hidden: usize) -> Result<usize> {
    if let Some(given) = fields.size_or_none("intermediate_size")? {
        return Ok(given);
    }
    let ratio = fields.number("hidden_ratio", 4.0)?;
    let exact = (hidden as f64 * ratio * 2.0 / 3.0).trunc();
    if !(1.0..=1e9).contains(&exact) {
        return Err(fields.refuse("hidden_ratio", "a positive factor", ratio));
    }
    Ok((exact as usize).next_multiple_of(256))
}

/// The section `dla`.
fn dla(section: &Fields<'_>, backbone: Backbone) -> Result<DlaConfig> {
    section.allow(&["capacity", "schedule", "block", "norm", "merge", "epsilon"])?;
    let defaults = Config::new(backbone);
    let schedule = match section.word("schedule")?.unwrap_or("dynamic") {
        "dynamic" => Schedule::Dynamic,
        "single" => Schedule::Single,
        "fenwick" => Schedule::Fenwick,
        "fixed" => Schedule::Fixed {
            block: section.size("block")?,
        },
        other => {
            let expected = "dynamic, single, fenwick or fixed";
            return Err(section.refuse("schedule", expected, other));
        }
    };
    let operator = Config {
        schedule,
        norm: section
            .parsed("norm", "rms or none")?
            .unwrap_or(defaults.norm),
        merge: section
            .parsed("merge", "density, ward or oldest")?
            .unwrap_or(defaults.merge),
        epsilon: section.epsilon("epsilon", defaults.epsilon)?,
        ..defaults
    };
    let capacity = section.size_or_none("capacity")?.unwrap_or(30);
    Ok(DlaConfig { capacity, operator })
}
