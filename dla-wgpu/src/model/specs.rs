//! How a model's blocks set their layers: what inference and training share.

use dla_core::Schedule;
use dla_core::model::{MixerConfig, ModelConfig};

use crate::Float;
use crate::nn::{
    AttentionSpec, ConvSpec, DeltaArraysSpec, DeltaOutputSpec, Mamba2ArraysSpec, Mamba2OutputSpec,
    ReadColumns, RmsNormSpec,
};

/// The layers' settings in every block of a model.
///
/// A row of projections is, for Mamba-2, z, x, B, C, Δ and λ; for Gated DeltaNet q, k, v, the gate, a,
/// b and λ; for softmax attention q, k and v.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockSpecs {
    /// Values of a row of projections.
    pub stride: usize,
    /// The norms of the residual stream.
    pub norm: RmsNormSpec,
    /// All convolutions of the mixer as one.
    pub conv: ConvSpec,
    /// Where λ is projected to.
    pub lambda: ReadColumns,
    /// The mixer's.
    pub mixer: MixerSpecs,
    /// Values inside the MLP, if there is one.
    pub inner: Option<usize>,
}

/// The settings of a mixer's own passes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MixerSpecs {
    /// Mamba-2.
    Mamba2(Mamba2ArraysSpec, Mamba2OutputSpec),
    /// Gated DeltaNet.
    GatedDelta(DeltaArraysSpec, DeltaOutputSpec),
    /// Softmax attention, which takes the convolutions' output as it is.
    Attention(AttentionSpec),
}

impl BlockSpecs {
    /// Those of a model, the operator's arrays in f32.
    pub fn of(config: &ModelConfig) -> Self {
        let (dims, epsilon) = (config.dims(), config.norm_epsilon);
        let (first, end) = match &config.mixer {
            MixerConfig::Mamba2(m) => (m.inner(), m.inner() + m.conv_channels() + m.heads),
            MixerConfig::GatedDelta(d) => {
                let gate = if d.gate { d.values() } else { 0 };
                (0, 2 * d.keys() + d.values() + gate + 2 * d.value_heads)
            }
            MixerConfig::Attention(a) => (0, 3 * a.inner()),
        };
        // Softmax attention has no states to read, whatever the settings say.
        let dla = config.dla.filter(|_| config.attention().is_none());
        let lambda = ReadColumns {
            column: dla.map(|_| end),
            fenwick: config.operator().schedule == Schedule::Fenwick,
        };
        let stride = end + dla.map_or(0, |_| dims.heads * dims.capacity);
        let (channels, width) = config.convolutions();
        let (mixer, inner) = match &config.mixer {
            MixerConfig::Mamba2(m) => {
                let arrays = Mamba2ArraysSpec {
                    dims,
                    stride,
                    dt: m.inner() + m.conv_channels(),
                    lambda,
                    dt_limit: m.dt_limit,
                    float: Float::F32,
                };
                let output = Mamba2OutputSpec {
                    dims,
                    stride,
                    z: 0,
                    norm_groups: m.groups,
                    epsilon,
                    float: Float::F32,
                };
                (MixerSpecs::Mamba2(arrays, output), None)
            }
            MixerConfig::GatedDelta(d) => {
                let a = end - 2 * d.value_heads;
                let arrays = DeltaArraysSpec {
                    dims,
                    stride,
                    a,
                    b: a + d.value_heads,
                    lambda,
                    most: d.most_strength(),
                    float: Float::F32,
                };
                let output = DeltaOutputSpec {
                    dims,
                    stride,
                    gate: d.gate.then_some(2 * d.keys() + d.values()),
                    epsilon,
                    float: Float::F32,
                };
                (MixerSpecs::GatedDelta(arrays, output), Some(d.intermediate))
            }
            MixerConfig::Attention(a) => {
                let spec = AttentionSpec {
                    heads: a.heads,
                    width: a.head_dim,
                };
                (MixerSpecs::Attention(spec), Some(a.intermediate))
            }
        };
        Self {
            stride,
            norm: RmsNormSpec {
                width: config.hidden,
                epsilon,
            },
            conv: ConvSpec {
                stride,
                first,
                channels: channels.iter().sum(),
                width,
            },
            lambda,
            mixer,
            inner,
        }
    }

    /// The most 32-bit values that a token has in any of the buffers between a block's passes.
    pub fn widest(&self, config: &ModelConfig) -> usize {
        let dims = config.dims();
        let operator = [
            dims.groups * dims.key_dim,
            dims.heads * dims.value_dim,
            dims.heads * (2 + dims.capacity),
            2 * dims.heads * config.layers, // traces of all layers lie in one buffer
        ];
        let block = [
            config.hidden,
            self.stride,
            self.conv.channels,
            2 * self.inner.unwrap_or(0),
        ];
        operator.into_iter().chain(block).max().unwrap_or(0)
    }

    /// The same with q, k, v and o of the operator in `float`.
    #[must_use]
    pub fn with(mut self, float: Float) -> Self {
        match &mut self.mixer {
            MixerSpecs::Mamba2(arrays, output) => (arrays.float, output.float) = (float, float),
            MixerSpecs::GatedDelta(arrays, output) => (arrays.float, output.float) = (float, float),
            MixerSpecs::Attention(_) => {}
        }
        self
    }
}
