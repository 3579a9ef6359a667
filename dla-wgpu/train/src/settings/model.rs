//! The section `model`.

use dla_core::dla::gate::{Gate, GateMode};
use dla_core::model::{
    AttentionConfig, DlaConfig, Family, GatedDeltaConfig, Mamba2Config, MixerConfig, ModelConfig,
    SpecialIds,
};
use dla_core::{Config, Error, Result, Schedule};
use serde::{Deserialize, Serialize};

/// The largest size that a checkpoint's config.json may hold.
const MAX_SIZE: usize = 1 << 20;

/// A model's sizes; which of them a family has is told in `docs/training.md`.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ModelSettings {
    /// `mamba2`, `gated_deltanet` or `attention`.
    pub family: String,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Blocks.
    pub layers: usize,
    /// Token ids; those of the data if not given.
    pub vocabulary: Option<usize>,
    /// The head is the embedding.
    #[serde(default = "yes")]
    pub tied: bool,
    /// ε of the norms.
    pub norm_epsilon: Option<f32>,
    /// Heads; key heads of Gated DeltaNet.
    pub heads: usize,
    /// Value width of a head; all widths of attention.
    pub head_dim: usize,
    /// Width of the convolutions.
    pub conv_width: Option<usize>,
    /// Mamba-2: groups of B and C.
    pub groups: Option<usize>,
    /// Mamba-2: width of B and C.
    pub state: Option<usize>,
    /// Gated DeltaNet: value heads.
    pub value_heads: Option<usize>,
    /// Gated DeltaNet: key width of a head.
    pub key_dim: Option<usize>,
    /// Gated DeltaNet: the output is gated.
    pub gate: Option<bool>,
    /// Gated DeltaNet: β reaches 2.
    pub negative_eigenvalues: Option<bool>,
    /// Gated DeltaNet and attention: width inside the MLP.
    pub intermediate: Option<usize>,
    /// DLA; without it a single state.
    pub dla: Option<DlaSettings>,
}

fn yes() -> bool {
    true
}

/// DLA's settings, and how τ starts and learns.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct DlaSettings {
    /// `dynamic`, `single`, `fixed` or `fenwick`.
    pub schedule: String,
    /// Tokens of a state under `fixed`.
    pub block: Option<usize>,
    /// States of a cache.
    pub capacity: usize,
    /// The threshold that every head starts with.
    pub tau: f32,
    /// `hard`, `straight-through` or `soft`.
    pub gate: String,
    /// θ of the gate at the first step.
    pub theta: f64,
    /// θ at the last step, in a geometric course; that of the first if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub theta_end: Option<f64>,
    /// `rms` or `none`.
    pub norm: String,
    /// `density`, `ward` or `oldest`.
    pub merge: String,
    /// ε of the score.
    pub epsilon: f64,
}

impl Default for DlaSettings {
    fn default() -> Self {
        Self {
            schedule: "dynamic".into(),
            block: None,
            capacity: 30,
            tau: 0.6,
            gate: "straight-through".into(),
            theta: Gate::default().theta,
            theta_end: None,
            norm: "rms".into(),
            merge: "density".into(),
            epsilon: 1e-12,
        }
    }
}

impl ModelSettings {
    /// The model, with `vocabulary` where none is given.
    ///
    /// # Errors
    /// For unknown words, sizes that another family has, and sizes that are not served.
    pub fn config(&self, vocabulary: usize) -> Result<ModelConfig> {
        let (family, mixer, epsilon) = match self.family.as_str() {
            "mamba2" => (Family::Mamba2, self.mamba2()?, 1e-5),
            "gated_deltanet" => (Family::GatedDeltaNet, self.gated_deltanet()?, 1e-6),
            "attention" => (Family::Attention, self.attention()?, 1e-6),
            other => {
                let expected = "mamba2, gated_deltanet or attention";
                return Err(refused("family", expected, other));
            }
        };
        self.check_sizes()?;
        if let Some(epsilon) = self.norm_epsilon.filter(|x| !(x.is_finite() && *x > 0.0)) {
            return Err(refused("norm_epsilon", "finite and above 0", epsilon));
        }
        let plain = ModelConfig {
            family,
            hidden: self.hidden,
            layers: self.layers,
            vocabulary: self.vocabulary.unwrap_or(vocabulary),
            tied: self.tied,
            norm_epsilon: self.norm_epsilon.unwrap_or(epsilon),
            mixer,
            dla: None,
            special: SpecialIds::default(),
        };
        if plain.vocabulary < vocabulary {
            let expected = format!("at least {vocabulary}, for the data has so many ids");
            return Err(refused("vocabulary", expected, plain.vocabulary));
        }
        let dla = self
            .dla
            .as_ref()
            .map(|dla| dla.config(&plain))
            .transpose()?;
        let config = ModelConfig { dla, ..plain };
        config.dims().check().map_err(|error| self.named(error))?;
        // What a checkpoint could not hold is not trained either.
        config.to_json().map_err(|error| error.within("train"))?;
        Ok(config)
    }

    /// How τ learns.
    ///
    /// # Errors
    /// For an unknown word.
    pub fn gate(&self) -> Result<GateMode> {
        let dla = self.dla.as_ref();
        let gate = dla.map_or(Ok(GateMode::default()), |dla| dla.gate.parse());
        gate.map_err(in_dla)
    }

    /// τ of every head at the start.
    pub fn tau(&self) -> f32 {
        self.dla.as_ref().map_or(f32::INFINITY, |dla| dla.tau)
    }

    fn mamba2(&self) -> Result<MixerConfig> {
        self.only(&["groups", "state"])?;
        Ok(MixerConfig::Mamba2(Mamba2Config {
            heads: self.heads,
            head_dim: self.head_dim,
            groups: self.groups.unwrap_or(1),
            state: required("state", self.state)?,
            conv_width: self.conv_width.unwrap_or(4),
            conv_bias: true,
            bias: false,
            dt_limit: [0.0, f32::INFINITY],
        }))
    }

    fn gated_deltanet(&self) -> Result<MixerConfig> {
        self.only(&[
            "value_heads",
            "key_dim",
            "gate",
            "negative_eigenvalues",
            "intermediate",
        ])?;
        Ok(MixerConfig::GatedDelta(GatedDeltaConfig {
            key_heads: self.heads,
            value_heads: self.value_heads.unwrap_or(self.heads),
            key_dim: self.key_dim.unwrap_or(self.head_dim),
            value_dim: self.head_dim,
            conv_width: self.conv_width.unwrap_or(4),
            gate: self.gate.unwrap_or(true),
            negative_eigenvalues: self.negative_eigenvalues.unwrap_or(false),
            intermediate: required("intermediate", self.intermediate)?,
        }))
    }

    fn attention(&self) -> Result<MixerConfig> {
        self.only(&["intermediate"])?;
        if self.dla.is_some() {
            let expected = "no such section, for softmax attention has no states";
            return Err(refused("dla", expected, "one"));
        }
        Ok(MixerConfig::Attention(AttentionConfig {
            heads: self.heads,
            head_dim: self.head_dim,
            conv_width: self.conv_width.unwrap_or(4),
            intermediate: required("intermediate", self.intermediate)?,
        }))
    }

    /// Refuses sizes that no model has.
    fn check_sizes(&self) -> Result<()> {
        let dla = self.dla.as_ref();
        let sizes = [
            ("hidden", Some(self.hidden)),
            ("layers", Some(self.layers)),
            ("vocabulary", self.vocabulary),
            ("heads", Some(self.heads)),
            ("head_dim", Some(self.head_dim)),
            ("conv_width", self.conv_width),
            ("groups", self.groups),
            ("state", self.state),
            ("value_heads", self.value_heads),
            ("key_dim", self.key_dim),
            ("intermediate", self.intermediate),
            ("dla.capacity", dla.map(|dla| dla.capacity)),
            ("dla.block", dla.and_then(|dla| dla.block)),
        ];
        for (name, size) in sizes {
            if let Some(size) = size.filter(|size| !(1..=MAX_SIZE).contains(size)) {
                return Err(refused(name, format!("1 to {MAX_SIZE}"), size));
            }
        }
        Ok(())
    }

    /// An error of the operator's sizes, with the setting that the size comes from.
    fn named(&self, error: Error) -> Error {
        let name = match (error.argument(), self.family.as_str()) {
            ("heads", _) if self.value_heads.is_some() => "value_heads",
            ("groups", "mamba2") => "groups",
            ("groups", _) => "heads",
            ("key_dim", "mamba2") => "state",
            ("key_dim", _) if self.key_dim.is_some() => "key_dim",
            ("key_dim" | "value_dim", _) => "head_dim",
            ("capacity", _) => "dla.capacity",
            (other, _) => other,
        };
        let argument = format!("model.{name}");
        error.at(argument).within("train")
    }

    /// Refuses the sizes that only other families have.
    fn only(&self, own: &[&str]) -> Result<()> {
        let given = [
            ("groups", self.groups.is_some()),
            ("state", self.state.is_some()),
            ("value_heads", self.value_heads.is_some()),
            ("key_dim", self.key_dim.is_some()),
            ("gate", self.gate.is_some()),
            ("negative_eigenvalues", self.negative_eigenvalues.is_some()),
            ("intermediate", self.intermediate.is_some()),
        ];
        let foreign = given.iter().find(|(name, is)| *is && !own.contains(name));
        foreign.map_or(Ok(()), |(name, _)| {
            let expected = format!("nothing, for {} has no such size", self.family);
            Err(refused(name, expected, "a value"))
        })
    }
}

impl DlaSettings {
    fn config(&self, plain: &ModelConfig) -> Result<DlaConfig> {
        let schedule = match (self.schedule.as_str(), self.block) {
            ("fixed", Some(block)) => Schedule::Fixed { block },
            ("fixed", None) => return Err(refused("dla.block", "a size under fixed", "none")),
            (_, Some(_)) => return Err(refused("dla.block", "none but under fixed", "a size")),
            ("dynamic", _) => Schedule::Dynamic,
            ("single", _) => Schedule::Single,
            ("fenwick", _) => Schedule::Fenwick,
            (other, _) => {
                let expected = "dynamic, single, fixed or fenwick";
                return Err(refused("dla.schedule", expected, other));
            }
        };
        if self.tau.is_nan() {
            return Err(refused("dla.tau", "a number", self.tau));
        }
        let operator = Config {
            schedule,
            norm: self.norm.parse().map_err(in_dla)?,
            merge: self.merge.parse().map_err(in_dla)?,
            epsilon: self.epsilon,
            ..Config::new(plain.backbone())
        };
        operator.check().map_err(in_dla)?;
        Ok(DlaConfig {
            capacity: self.capacity,
            operator,
        })
    }
}

fn required(name: &str, size: Option<usize>) -> Result<usize> {
    size.ok_or_else(|| refused(name, "a size", "none"))
}

/// An error of the operator, of the setting that has the argument's name.
fn in_dla(error: Error) -> Error {
    let argument = format!("model.dla.{}", error.argument());
    error.at(argument).within("train")
}

fn refused(name: &str, expected: impl ToString, got: impl ToString) -> Error {
    Error::input("train", format!("model.{name}"), expected, got)
}
