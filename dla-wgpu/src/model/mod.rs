//! The model on the device: the twin of `dla_core::model`.
//!
//! [`Model`] holds the weights, a [`Batch`] the sequences that go on side by side. Work is prepared
//! once for every number of tokens that calls are cut into ([`TILES`]) and recorded as often as
//! wanted, with nothing compiled or allocated on the device in between.

mod batch;
mod call;
mod layer;
mod layout;
mod mixer;
mod place;
mod record;
mod rooms;
mod sequences;
mod served;
mod specs;
mod tile;
mod upload;
mod weights;

use std::sync::Arc;

use dla_core::Result;
use dla_core::model::{ModelConfig, Weights};

pub use batch::{Batch, Snapshot};
pub use call::{Pending, Taken, Wanted};
pub use specs::{BlockSpecs, MixerSpecs};
pub use tile::TILES;

use self::weights::{MixerWeights, ModelWeights};
use crate::Gpu;
use crate::nn::WeightType;

/// A language model of Mamba-2 or Gated DeltaNet blocks on a device, with DLA where its checkpoint
/// has it, or of softmax attention. Cheap to clone.
///
/// ```no_run
/// use dla_core::checkpoint::Checkpoint;
/// use dla_wgpu::model::{Model, Wanted};
/// use dla_wgpu::nn::WeightType;
/// use dla_wgpu::{Gpu, GpuOptions};
///
/// let gpu = Gpu::new_blocking(&GpuOptions::default())?;
/// let checkpoint = Checkpoint::open("mamba2-780m".as_ref())?;
/// let mut weights = checkpoint.weights()?;
/// let load = Model::load(&gpu, checkpoint.config(), &mut weights, WeightType::F16);
/// let model = gpu.block_on(load)?;
/// let mut batch = gpu.block_on(model.batch(2))?;
/// let prompts: [&[u32]; 2] = [&[510, 6183], &[273]];
/// let taken = gpu.block_on(batch.run(&prompts, &Wanted::default()))?;
/// assert_eq!(taken[1].logits.len(), model.config().vocabulary);
/// # Ok::<(), dla_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Model {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    gpu: Gpu,
    config: ModelConfig,
    weights: ModelWeights,
}

impl Model {
    /// Streams a model's weights to a device; the host holds one tensor at a time.
    ///
    /// # Errors
    /// Those of the source; [`Error::is_input`](dla_core::Error::is_input) for weights that the type cannot hold,
    /// [`Error::is_unsupported`](dla_core::Error::is_unsupported) for sizes beyond the device,
    /// [`Error::is_device`](dla_core::Error::is_device) where it fails.
    pub async fn load(
        gpu: &Gpu,
        config: &ModelConfig,
        weights: &mut impl Weights<Tensor = Vec<f32>>,
        weight_type: WeightType,
    ) -> Result<Self> {
        served::check(gpu, config)?;
        let weights = ModelWeights::load(gpu, config, weights, weight_type).await?;
        Ok(Self {
            inner: Arc::new(Inner {
                gpu: gpu.clone(),
                config: config.clone(),
                weights,
            }),
        })
    }

    /// Room for `sequences` sequences that go on side by side, before their first tokens. The keys and values of softmax
    /// attention get more room as sequences grow.
    ///
    /// # Errors
    /// [`Error::is_input`](dla_core::Error::is_input) for none or more than 4,096;
    /// [`Error::is_unsupported`](dla_core::Error::is_unsupported) where their states are more than the device can bind.
    pub async fn batch(&self, sequences: usize) -> Result<Batch> {
        Batch::new(self, sequences).await
    }

    /// The model's settings.
    pub fn config(&self) -> &ModelConfig {
        &self.inner.config
    }

    /// The device.
    pub fn gpu(&self) -> &Gpu {
        &self.inner.gpu
    }

    /// Bytes of the weights' matrices on the device.
    pub fn weight_bytes(&self) -> u64 {
        self.inner.weights.bytes()
    }

    /// τ of each head of layer `layer` `[heads]`; empty where the schedule has none, and beyond the layers.
    pub fn tau(&self, layer: usize) -> &[f32] {
        let blocks = &self.inner.weights.blocks;
        match blocks.get(layer).map(|block| &block.mixer) {
            Some(MixerWeights::Recurrent(mixer)) => &mixer.thresholds,
            Some(MixerWeights::Attention) | None => &[],
        }
    }

    fn weights(&self) -> &ModelWeights {
        &self.inner.weights
    }
}
