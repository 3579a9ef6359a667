//! What a model is made of, whichever family of files it came from.

use crate::config::{Backbone, Config, Schedule};
use crate::dims::Dims;
use crate::error::{Error, Result};
use crate::nn::Attention;

use super::special::SpecialIds;

/// The families of checkpoints: they differ in the names of tensors and settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Hugging Face's `model_type: mamba2`.
    Mamba2,
    /// state-spaces' own Mamba-2 files (`ssm_cfg`).
    StateSpaces,
    /// fla's `model_type: gated_deltanet`.
    GatedDeltaNet,
    /// This project's `model_type: dla_attention`: softmax attention in Gated DeltaNet's body, the
    /// baseline of its experiments.
    Attention,
}

impl std::fmt::Display for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Mamba2 => "Mamba-2 (Hugging Face)",
            Self::StateSpaces => "Mamba-2 (state-spaces)",
            Self::GatedDeltaNet => "Gated DeltaNet (fla)",
            Self::Attention => "softmax attention",
        })
    }
}

/// The settings of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// Whose file it is.
    pub family: Family,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Blocks.
    pub layers: usize,
    /// Rows of the embedding, padding included.
    pub vocabulary: usize,
    /// The head is the embedding.
    pub tied: bool,
    /// ε of the norms.
    pub norm_epsilon: f32,
    /// The mixers.
    pub mixer: MixerConfig,
    /// DLA's settings; absent for a plain checkpoint, which keeps a single state.
    pub dla: Option<DlaConfig>,
    /// The ids of special tokens that the model's files name.
    pub special: SpecialIds,
}

/// The settings of the mixers, which all layers share.
#[derive(Clone, Debug, PartialEq)]
pub enum MixerConfig {
    /// Mamba-2.
    Mamba2(Mamba2Config),
    /// Gated DeltaNet.
    GatedDelta(GatedDeltaConfig),
    /// Softmax attention.
    Attention(AttentionConfig),
}

/// Settings of a Mamba-2 mixer.
#[derive(Clone, Debug, PartialEq)]
pub struct Mamba2Config {
    /// Value heads, H.
    pub heads: usize,
    /// Value width of a head, Dv.
    pub head_dim: usize,
    /// Groups of B and C, G.
    pub groups: usize,
    /// Width of B and C, Dk.
    pub state: usize,
    /// Width of the convolution.
    pub conv_width: usize,
    /// The convolution has a bias.
    pub conv_bias: bool,
    /// The projections have biases.
    pub bias: bool,
    /// The range that Δ is clamped to.
    pub dt_limit: [f32; 2],
}

/// Settings of a Gated DeltaNet mixer and the MLP beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct GatedDeltaConfig {
    /// Key heads, G.
    pub key_heads: usize,
    /// Value heads, H, a multiple of the key heads.
    pub value_heads: usize,
    /// Key width of a head, Dk.
    pub key_dim: usize,
    /// Value width of a head, Dv.
    pub value_dim: usize,
    /// Width of the convolutions.
    pub conv_width: usize,
    /// The output is gated.
    pub gate: bool,
    /// β reaches 2 instead of 1, so that eigenvalues may be negative.
    pub negative_eigenvalues: bool,
    /// Width inside the MLP.
    pub intermediate: usize,
}

/// Settings of a softmax-attention mixer and the MLP beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionConfig {
    /// Heads.
    pub heads: usize,
    /// Width of a head's queries, keys and values.
    pub head_dim: usize,
    /// Width of the convolutions.
    pub conv_width: usize,
    /// Width inside the MLP.
    pub intermediate: usize,
}

/// What DLA adds: the `dla` section of config.json.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DlaConfig {
    /// States a cache may hold, K.
    pub capacity: usize,
    /// The operator's settings.
    pub operator: Config,
}

impl ModelConfig {
    /// The recurrence under the mixers; plain for softmax attention, which keeps every token and
    /// leaves its states empty.
    pub fn backbone(&self) -> Backbone {
        match self.mixer {
            MixerConfig::Mamba2(_) => Backbone::Decay,
            MixerConfig::GatedDelta(_) => Backbone::Delta,
            MixerConfig::Attention(_) => Backbone::Plain,
        }
    }

    /// The settings of the mixers if they are softmax attention, which has no states.
    pub fn attention(&self) -> Option<&AttentionConfig> {
        match &self.mixer {
            MixerConfig::Attention(attention) => Some(attention),
            MixerConfig::Mamba2(_) | MixerConfig::GatedDelta(_) => None,
        }
    }

    /// Refuses softmax attention for the sake of `argument`, which has to do with states.
    ///
    /// # Errors
    /// [`Error::is_unsupported`] for it.
    pub fn require_states(&self, op: &'static str, argument: &'static str) -> Result<()> {
        match self.attention() {
            Some(_) => {
                let expected = "a model that keeps states";
                Err(Error::unsupported(
                    op,
                    argument,
                    expected,
                    "softmax attention",
                ))
            }
            None => Ok(()),
        }
    }

    /// The operator's settings; a plain checkpoint keeps a single state.
    pub fn operator(&self) -> Config {
        self.dla.map_or_else(
            || Config {
                schedule: Schedule::Single,
                ..Config::new(self.backbone())
            },
            |dla| dla.operator,
        )
    }

    /// The operator's sizes for one sequence, without tokens.
    pub fn dims(&self) -> Dims {
        let capacity = self.dla.map_or(1, |dla| dla.capacity);
        let (heads, groups, key_dim, value_dim) = match &self.mixer {
            MixerConfig::Mamba2(m) => (m.heads, m.groups, m.state, m.head_dim),
            MixerConfig::GatedDelta(d) => (d.value_heads, d.key_heads, d.key_dim, d.value_dim),
            MixerConfig::Attention(a) => (a.heads, a.heads, a.head_dim, a.head_dim),
        };
        Dims {
            batch: 1,
            tokens: 0,
            heads,
            groups,
            key_dim,
            value_dim,
            capacity,
        }
    }

    /// The channels of each of a layer's convolutions, and their width.
    pub fn convolutions(&self) -> (Vec<usize>, usize) {
        match &self.mixer {
            MixerConfig::Mamba2(m) => (vec![m.conv_channels()], m.conv_width),
            MixerConfig::GatedDelta(d) => (vec![d.keys(), d.keys(), d.values()], d.conv_width),
            MixerConfig::Attention(a) => (vec![a.inner(); 3], a.conv_width),
        }
    }

    /// Bytes that one sequence carries from token to token, without the keys and values of softmax
    /// attention, which grow with it; the most that 64 bits count for settings that no weights could
    /// belong to.
    pub fn state_bytes(&self) -> u64 {
        let dims = self.dims();
        let (channels, width) = self.convolutions();
        let inputs = (width - 1) as u64 * channels.iter().map(|&n| n as u64).sum::<u64>();
        let entries = (dims.sequences() * dims.capacity) as u64;
        let states = match self.attention() {
            Some(_) => 0,
            None => entries.saturating_mul(dims.state_len() as u64 + 2),
        };
        let layer = inputs.saturating_add(states).saturating_mul(4);
        layer.saturating_mul(self.layers as u64)
    }
}

impl Mamba2Config {
    /// Values of all heads, H·Dv.
    pub fn inner(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Values of B or of C, G·Dk.
    pub fn keys(&self) -> usize {
        self.groups * self.state
    }

    /// Channels of the convolution: x, B and C.
    pub fn conv_channels(&self) -> usize {
        self.inner() + 2 * self.keys()
    }
}

impl AttentionConfig {
    /// Values of all heads.
    pub fn inner(&self) -> usize {
        self.heads * self.head_dim
    }

    /// The layer of these sizes.
    pub fn attention(&self) -> Attention {
        Attention {
            heads: self.heads,
            width: self.head_dim,
        }
    }
}

impl GatedDeltaConfig {
    /// What β stays below: 1, or 2 where eigenvalues may be negative.
    pub fn most_strength(&self) -> f32 {
        if self.negative_eigenvalues { 2.0 } else { 1.0 }
    }

    /// Values of all keys, G·Dk.
    pub fn keys(&self) -> usize {
        self.key_heads * self.key_dim
    }

    /// Values of all heads, H·Dv.
    pub fn values(&self) -> usize {
        self.value_heads * self.value_dim
    }
}
