//! Every tensor of a model: the one place that states names and shapes.
//!
//! `T` is what stands for a tensor, as its [`Weights`] say.

use super::config::{
    AttentionConfig, Family, GatedDeltaConfig, Mamba2Config, MixerConfig, ModelConfig,
};
use super::weights::{Scope, TensorName, Weights};
use crate::error::Result;

/// The tensors of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelTensors<T> {
    /// `[vocabulary, hidden]`.
    pub embeddings: T,
    /// By layer.
    pub blocks: Vec<BlockTensors<T>>,
    /// The last norm, `[hidden]`.
    pub norm: T,
    /// `[vocabulary, hidden]`; none where the head is the embedding.
    pub head: Option<T>,
}

/// The tensors of a block.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockTensors<T> {
    /// The norm before the mixer, `[hidden]`.
    pub norm: T,
    /// The mixer's.
    pub mixer: MixerTensors<T>,
    /// What DLA adds to the mixer.
    pub dla: Option<DlaTensors<T>>,
    /// The MLP's, beside Gated DeltaNet and attention.
    pub mlp: Option<MlpTensors<T>>,
}

/// The tensors of a mixer.
#[derive(Clone, Debug, PartialEq)]
pub enum MixerTensors<T> {
    /// Mamba-2.
    Mamba2(Mamba2Tensors<T>),
    /// Gated DeltaNet.
    GatedDelta(GatedDeltaTensors<T>),
    /// Softmax attention.
    Attention(AttentionTensors<T>),
}

/// The tensors of a Mamba-2 mixer: `inner` is H·Dv, `channels` inner + 2·G·Dk.
#[derive(Clone, Debug, PartialEq)]
pub struct Mamba2Tensors<T> {
    /// Rows z, x, B, C, Δ: `[inner + channels + heads, hidden]`.
    pub in_proj: T,
    /// `[inner + channels + heads]`.
    pub in_bias: Option<T>,
    /// `[channels, 1, width]`.
    pub conv: T,
    /// `[channels]`.
    pub conv_bias: Option<T>,
    /// `[heads]`.
    pub a_log: T,
    /// `[heads]`.
    pub dt_bias: T,
    /// `[heads]`.
    pub d: T,
    /// `[inner]`.
    pub norm: T,
    /// `[hidden, inner]`.
    pub out_proj: T,
    /// `[hidden]`.
    pub out_bias: Option<T>,
}

/// The tensors of a Gated DeltaNet mixer: `keys` is G·Dk, `values` H·Dv.
#[derive(Clone, Debug, PartialEq)]
pub struct GatedDeltaTensors<T> {
    /// `[keys, hidden]` and its convolution.
    pub q: ConvolvedTensors<T>,
    /// `[keys, hidden]` and its convolution.
    pub k: ConvolvedTensors<T>,
    /// `[values, hidden]` and its convolution.
    pub v: ConvolvedTensors<T>,
    /// `[heads, hidden]`.
    pub a_proj: T,
    /// `[heads, hidden]`.
    pub b_proj: T,
    /// `[heads]`.
    pub a_log: T,
    /// `[heads]`.
    pub dt_bias: T,
    /// The gate, `[values, hidden]`.
    pub g_proj: Option<T>,
    /// `[Dv]`.
    pub o_norm: T,
    /// `[hidden, values]`.
    pub o_proj: T,
}

/// The tensors of a softmax-attention mixer: `inner` is heads · head_dim.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionTensors<T> {
    /// `[inner, hidden]` and its convolution.
    pub q: ConvolvedTensors<T>,
    /// `[inner, hidden]` and its convolution.
    pub k: ConvolvedTensors<T>,
    /// `[inner, hidden]` and its convolution.
    pub v: ConvolvedTensors<T>,
    /// `[hidden, inner]`.
    pub o_proj: T,
}

/// A projection and the convolution after it.
#[derive(Clone, Debug, PartialEq)]
pub struct ConvolvedTensors<T> {
    /// `[rows, hidden]`.
    pub projection: T,
    /// `[rows, 1, width]`.
    pub conv: T,
}

/// What DLA adds to a mixer.
#[derive(Clone, Debug, PartialEq)]
pub struct DlaTensors<T> {
    /// Thresholds τ, `[heads]`.
    pub tau: T,
    /// W of λ, `[heads · capacity, hidden]`.
    pub lambda_proj: T,
    /// L of λ, `[heads, capacity]`.
    pub lambda_scale: T,
    /// a of λ, `[heads, capacity]`.
    pub lambda_bias: T,
}

/// The tensors of an MLP.
#[derive(Clone, Debug, PartialEq)]
pub struct MlpTensors<T> {
    /// The norm before it, `[hidden]`.
    pub norm: T,
    /// `[inner, hidden]`.
    pub gate: T,
    /// `[inner, hidden]`.
    pub up: T,
    /// `[hidden, inner]`.
    pub down: T,
}

impl<T> ModelTensors<T> {
    /// Asks a source for every tensor of a model of these settings.
    ///
    /// # Errors
    /// Those of the source.
    ///
    /// ```
    /// use dla_core::checkpoint::Checkpoint;
    /// use dla_core::model::{ModelTensors, Names};
    /// let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/golden/model/gdn_fla");
    /// let tensors = ModelTensors::load(Checkpoint::open(folder.as_ref())?.config(), &mut Names)?;
    /// assert_eq!(tensors.blocks[0].norm.name, "model.layers.0.attn_norm.weight");
    /// # Ok::<(), dla_core::Error>(())
    /// ```
    pub fn load(config: &ModelConfig, weights: &mut impl Weights<Tensor = T>) -> Result<Self> {
        let names = OuterNames::of(config.family);
        let table = [config.vocabulary, config.hidden];
        let mut body = Scope::new(weights, names.body);
        let embeddings = body.tensor(names.embeddings, &table)?;
        let mut layers = body.within("layers");
        let blocks = (0..config.layers)
            .map(|i| BlockTensors::load(config, &mut layers.within(&i.to_string())))
            .collect::<Result<_>>()?;
        let norm = body.tensor(names.norm, &[config.hidden])?;
        let head = Scope::new(weights, "").tensor_if(!config.tied, "lm_head.weight", &table)?;
        Ok(Self {
            embeddings,
            blocks,
            norm,
            head,
        })
    }
}

impl BlockTensors<TensorName> {
    /// Weights of the block's matrices: what a token is multiplied with.
    pub fn matrices(&self) -> usize {
        let mixer = match &self.mixer {
            MixerTensors::Mamba2(m) => m.in_proj.len() + m.out_proj.len(),
            MixerTensors::GatedDelta(d) => {
                let convolved = [&d.q, &d.k, &d.v].map(|part| part.projection.len());
                let gate = d.g_proj.as_ref().map_or(0, TensorName::len);
                let own = d.a_proj.len() + d.b_proj.len() + d.o_proj.len();
                convolved.iter().sum::<usize>() + gate + own
            }
            MixerTensors::Attention(a) => {
                let convolved = [&a.q, &a.k, &a.v].map(|part| part.projection.len());
                convolved.iter().sum::<usize>() + a.o_proj.len()
            }
        };
        let read = self.dla.as_ref().map_or(0, |dla| dla.lambda_proj.len());
        let mlp = self.mlp.as_ref();
        mixer + read + mlp.map_or(0, |m| m.gate.len() + m.up.len() + m.down.len())
    }
}

/// What the families call the tensors outside the blocks.
struct OuterNames {
    body: &'static str,
    embeddings: &'static str,
    norm: &'static str,
}

impl OuterNames {
    fn of(family: Family) -> Self {
        let (body, embeddings, norm) = match family {
            Family::Mamba2 => ("backbone.", "embeddings.weight", "norm_f.weight"),
            Family::StateSpaces => ("backbone.", "embedding.weight", "norm_f.weight"),
            Family::GatedDeltaNet | Family::Attention => {
                ("model.", "embeddings.weight", "norm.weight")
            }
        };
        Self {
            body,
            embeddings,
            norm,
        }
    }
}

impl<T> BlockTensors<T> {
    fn load<W: Weights<Tensor = T>>(
        config: &ModelConfig,
        weights: &mut Scope<'_, W>,
    ) -> Result<Self> {
        let hidden = [config.hidden];
        let (norm, mixer_name, inner) = match &config.mixer {
            MixerConfig::Mamba2(_) => ("norm.weight", "mixer", None),
            MixerConfig::GatedDelta(mixer) => {
                ("attn_norm.weight", "attn", Some(mixer.intermediate))
            }
            MixerConfig::Attention(mixer) => ("attn_norm.weight", "attn", Some(mixer.intermediate)),
        };
        let norm = weights.tensor(norm, &hidden)?;
        let mut inside = weights.within(mixer_name);
        let mixer = MixerTensors::load(config, &mut inside)?;
        let dla = DlaTensors::load(config, &mut inside)?;
        let mlp = inner.map(|inner| MlpTensors::load(config.hidden, inner, weights));
        Ok(Self {
            norm,
            mixer,
            dla,
            mlp: mlp.transpose()?,
        })
    }
}

impl<T> MixerTensors<T> {
    fn load<W: Weights<Tensor = T>>(
        config: &ModelConfig,
        weights: &mut Scope<'_, W>,
    ) -> Result<Self> {
        Ok(match &config.mixer {
            MixerConfig::Mamba2(mixer) => {
                Self::Mamba2(Mamba2Tensors::load(config, mixer, weights)?)
            }
            MixerConfig::GatedDelta(mixer) => {
                Self::GatedDelta(GatedDeltaTensors::load(config, mixer, weights)?)
            }
            MixerConfig::Attention(mixer) => {
                Self::Attention(AttentionTensors::load(config, mixer, weights)?)
            }
        })
    }
}

impl<T> Mamba2Tensors<T> {
    fn load<W: Weights<Tensor = T>>(
        model: &ModelConfig,
        config: &Mamba2Config,
        weights: &mut Scope<'_, W>,
    ) -> Result<Self> {
        let (hidden, inner, heads) = (model.hidden, config.inner(), config.heads);
        let (channels, width) = (config.conv_channels(), config.conv_width);
        let rows = inner + channels + heads;
        Ok(Self {
            in_proj: weights.tensor("in_proj.weight", &[rows, hidden])?,
            in_bias: weights.tensor_if(config.bias, "in_proj.bias", &[rows])?,
            conv: weights.tensor("conv1d.weight", &[channels, 1, width])?,
            conv_bias: weights.tensor_if(config.conv_bias, "conv1d.bias", &[channels])?,
            a_log: weights.tensor("A_log", &[heads])?,
            dt_bias: weights.tensor("dt_bias", &[heads])?,
            d: weights.tensor("D", &[heads])?,
            norm: weights.tensor("norm.weight", &[inner])?,
            out_proj: weights.tensor("out_proj.weight", &[hidden, inner])?,
            out_bias: weights.tensor_if(config.bias, "out_proj.bias", &[hidden])?,
        })
    }
}

impl<T> GatedDeltaTensors<T> {
    fn load<W: Weights<Tensor = T>>(
        model: &ModelConfig,
        config: &GatedDeltaConfig,
        weights: &mut Scope<'_, W>,
    ) -> Result<Self> {
        let (hidden, heads) = (model.hidden, config.value_heads);
        let (keys, values) = (config.keys(), config.values());
        let shape = [hidden, config.conv_width];
        Ok(Self {
            q: ConvolvedTensors::load(weights, "q", keys, shape)?,
            k: ConvolvedTensors::load(weights, "k", keys, shape)?,
            v: ConvolvedTensors::load(weights, "v", values, shape)?,
            a_proj: weights.tensor("a_proj.weight", &[heads, hidden])?,
            b_proj: weights.tensor("b_proj.weight", &[heads, hidden])?,
            a_log: weights.tensor("A_log", &[heads])?,
            dt_bias: weights.tensor("dt_bias", &[heads])?,
            g_proj: weights.tensor_if(config.gate, "g_proj.weight", &[values, hidden])?,
            o_norm: weights.tensor("o_norm.weight", &[config.value_dim])?,
            o_proj: weights.tensor("o_proj.weight", &[hidden, values])?,
        })
    }
}

impl<T> AttentionTensors<T> {
    fn load<W: Weights<Tensor = T>>(
        model: &ModelConfig,
        config: &AttentionConfig,
        weights: &mut Scope<'_, W>,
    ) -> Result<Self> {
        let (hidden, inner) = (model.hidden, config.inner());
        let shape = [hidden, config.conv_width];
        Ok(Self {
            q: ConvolvedTensors::load(weights, "q", inner, shape)?,
            k: ConvolvedTensors::load(weights, "k", inner, shape)?,
            v: ConvolvedTensors::load(weights, "v", inner, shape)?,
            o_proj: weights.tensor("o_proj.weight", &[hidden, inner])?,
        })
    }
}

impl<T> ConvolvedTensors<T> {
    fn load<W: Weights<Tensor = T>>(
        weights: &mut Scope<'_, W>,
        letter: &str,
        rows: usize,
        [hidden, width]: [usize; 2],
    ) -> Result<Self> {
        let projection = format!("{letter}_proj.weight");
        let conv = format!("{letter}_conv1d.weight");
        Ok(Self {
            projection: weights.tensor(&projection, &[rows, hidden])?,
            conv: weights.tensor(&conv, &[rows, 1, width])?,
        })
    }
}

impl<T> DlaTensors<T> {
    /// Those of the mixer that `weights` is in; a plain checkpoint and softmax attention have none.
    fn load<W: Weights<Tensor = T>>(
        config: &ModelConfig,
        weights: &mut Scope<'_, W>,
    ) -> Result<Option<Self>> {
        let Some(dla) = config.dla.filter(|_| config.attention().is_none()) else {
            return Ok(None);
        };
        let heads = config.dims().heads;
        let mut weights = weights.within("dla");
        Ok(Some(Self {
            tau: weights.tensor("tau", &[heads])?,
            lambda_proj: weights
                .tensor("lambda_proj.weight", &[heads * dla.capacity, config.hidden])?,
            lambda_scale: weights.tensor("lambda_scale", &[heads, dla.capacity])?,
            lambda_bias: weights.tensor("lambda_bias", &[heads, dla.capacity])?,
        }))
    }
}

impl<T> MlpTensors<T> {
    /// Those of the block that `weights` is in.
    fn load<W: Weights<Tensor = T>>(
        hidden: usize,
        inner: usize,
        weights: &mut Scope<'_, W>,
    ) -> Result<Self> {
        let norm = weights.tensor("mlp_norm.weight", &[hidden])?;
        let mut weights = weights.within("mlp");
        Ok(Self {
            norm,
            gate: weights.tensor("gate_proj.weight", &[inner, hidden])?,
            up: weights.tensor("up_proj.weight", &[inner, hidden])?,
            down: weights.tensor("down_proj.weight", &[hidden, inner])?,
        })
    }
}
