//! How a model's blocks set their layers: what inference and training share.

use dla_core::model::{MixerConfig, ModelConfig};
use dla_core::{Result, Schedule};

use super::attention_unserved;
use crate::nn::{
    ConvSpec, DeltaArraysSpec, DeltaOutputSpec, Mamba2ArraysSpec, Mamba2OutputSpec, ReadColumns,
    RmsNormSpec,
};

/// The layers' settings in every block of a model.
///
/// A row of projections is, for Mamba-2, z, x, B, C, Δ and λ; for Gated DeltaNet q, k, v, the gate, a,
/// b and λ.
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
}

impl BlockSpecs {
    /// Those of a model.
    ///
    /// # Errors
    /// [`Error::is_unsupported`](dla_core::Error::is_unsupported) for softmax attention.
    pub fn of(config: &ModelConfig) -> Result<Self> {
        let (dims, epsilon) = (config.dims(), config.norm_epsilon);
        let (first, end) = match &config.mixer {
            MixerConfig::Mamba2(m) => (m.inner(), m.inner() + m.conv_channels() + m.heads),
            MixerConfig::GatedDelta(d) => {
                let gate = if d.gate { d.values() } else { 0 };
                (0, 2 * d.keys() + d.values() + gate + 2 * d.value_heads)
            }
            MixerConfig::Attention(_) => return Err(attention_unserved()),
        };
        let lambda = ReadColumns {
            column: config.dla.map(|_| end),
            fenwick: config.operator().schedule == Schedule::Fenwick,
        };
        let stride = end + config.dla.map_or(0, |_| dims.heads * dims.capacity);
        let (channels, width) = config.convolutions();
        let (mixer, inner) = match &config.mixer {
            MixerConfig::Mamba2(m) => {
                let arrays = Mamba2ArraysSpec {
                    dims,
                    stride,
                    dt: m.inner() + m.conv_channels(),
                    lambda,
                    dt_limit: m.dt_limit,
                };
                let output = Mamba2OutputSpec {
                    dims,
                    stride,
                    z: 0,
                    norm_groups: m.groups,
                    epsilon,
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
                };
                let output = DeltaOutputSpec {
                    dims,
                    stride,
                    gate: d.gate.then_some(2 * d.keys() + d.values()),
                    epsilon,
                };
                (MixerSpecs::GatedDelta(arrays, output), Some(d.intermediate))
            }
            MixerConfig::Attention(_) => return Err(attention_unserved()),
        };
        Ok(Self {
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
        })
    }
}
