//! What the mixers of all families have in common: the one place that tells them apart.

use std::sync::Arc;

use dla_core::Result;
use dla_core::dla::gate::GateMode;
use dla_core::model::ModelConfig;
use dla_wgpu::Gpu;
use dla_wgpu::model::MixerSpecs;

use super::super::layout::BlockPlaces;
use super::super::shared::Shared;
use super::super::work::Work;
use super::attention::{self, Attention};
use super::call::{Call, Kept};
use super::gated_delta::GatedDelta;
use super::mamba2::Mamba2;
use super::recurrent::{self, Recurrent};

/// What the mixers of all blocks share.
#[derive(Debug)]
pub(in crate::device) enum Mixers {
    Mamba2(Mamba2, Arc<recurrent::Shared>),
    GatedDelta(GatedDelta, Arc<recurrent::Shared>),
    Attention(Arc<attention::Shared>),
}

/// A block's mixer: what stands between its convolution and its last projection.
#[derive(Debug)]
pub(super) enum Mixer {
    Mamba2(Recurrent<Mamba2>),
    GatedDelta(Recurrent<GatedDelta>),
    Attention(Attention),
}

impl Mixers {
    /// Those of a model.
    pub(in crate::device) async fn new(
        gpu: &Gpu,
        config: &ModelConfig,
        gate: GateMode,
        shared: &Shared,
    ) -> Result<Self> {
        let recurrent = async || {
            let shared = recurrent::Shared::new(gpu, config, gate, shared);
            shared.await.map(Arc::new)
        };
        Ok(match shared.specs.mixer {
            MixerSpecs::Mamba2(arrays, output) => {
                Self::Mamba2(Mamba2 { arrays, output }, recurrent().await?)
            }
            MixerSpecs::GatedDelta(arrays, output) => {
                Self::GatedDelta(GatedDelta { arrays, output }, recurrent().await?)
            }
            MixerSpecs::Attention(spec) => {
                Self::Attention(Arc::new(attention::Shared::new(gpu, spec, shared).await?))
            }
        })
    }

    /// The gate's θ, f32, where a gate has one.
    pub(in crate::device) fn theta(&self) -> Option<&wgpu::Buffer> {
        match self {
            Self::Mamba2(_, shared) | Self::GatedDelta(_, shared) => Some(shared.theta()),
            Self::Attention(_) => None,
        }
    }

    /// The mixer of the block at `places`.
    pub(super) async fn mixer(
        &self,
        gpu: &Gpu,
        places: &BlockPlaces,
        shared: &Shared,
        kept: Kept,
    ) -> Result<Mixer> {
        let recurrent = || {
            let recurrent = places.recurrent.clone();
            recurrent.unwrap_or_else(|| unreachable!("the layout has a recurrence's parameters"))
        };
        Ok(match self {
            Self::Mamba2(form, all) => {
                let mixer = Recurrent::new(gpu, *form, all.clone(), recurrent(), kept);
                Mixer::Mamba2(mixer.await?)
            }
            Self::GatedDelta(form, all) => {
                let mixer = Recurrent::new(gpu, *form, all.clone(), recurrent(), kept);
                Mixer::GatedDelta(mixer.await?)
            }
            Self::Attention(all) => {
                Mixer::Attention(Attention::new(gpu, all.clone(), shared, kept).await?)
            }
        })
    }
}

impl Mixer {
    /// What the last projection reads, `[rows, values]`.
    pub(super) fn output(&self) -> &wgpu::Buffer {
        match self {
            Self::Mamba2(mixer) => mixer.output(),
            Self::GatedDelta(mixer) => mixer.output(),
            Self::Attention(mixer) => mixer.output(),
        }
    }

    /// From the projection and the convolution's output to [`output`](Self::output).
    pub(super) async fn forward(&self, call: &Call<'_>) -> Result<Vec<Work>> {
        match self {
            Self::Mamba2(mixer) => mixer.forward(call).await,
            Self::GatedDelta(mixer) => mixer.forward(call).await,
            Self::Attention(mixer) => mixer.forward(call).await,
        }
    }

    /// Makes again what [`output`](Self::output) held after the forward pass, if it is not kept.
    pub(super) async fn output_again(&self, call: &Call<'_>) -> Result<Vec<Work>> {
        match self {
            Self::Mamba2(mixer) => mixer.output_made(call).await,
            Self::GatedDelta(mixer) => mixer.output_made(call).await,
            Self::Attention(_) => Ok(Vec::new()),
        }
    }

    /// From `d_y` to `d_mixed`, what the mixer reads of `d_projected`, and its own parameters.
    pub(super) async fn backward(&self, call: &Call<'_>) -> Result<Vec<Work>> {
        match self {
            Self::Mamba2(mixer) => mixer.backward(call).await,
            Self::GatedDelta(mixer) => mixer.backward(call).await,
            Self::Attention(mixer) => mixer.backward(call).await,
        }
    }
}
