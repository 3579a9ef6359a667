//! A model's weights on the device, streamed there tensor by tensor.
//!
//! What reads the same input becomes one matrix: a mixer's projections, the rows that λ is made of,
//! an MLP's gate and what it opens. So a layer has few dispatches.

use dla_core::model::{
    AttentionTensors, BlockTensors, ConvolvedTensors, DlaTensors, GatedDeltaTensors, Mamba2Tensors,
    MixerTensors, MlpTensors, ModelConfig, ModelTensors, Names, TensorName, Weights,
    check_thresholds,
};
use dla_core::nn::decay;
use dla_core::{Result, Schedule};

use super::specs::BlockSpecs;
use crate::Gpu;
use crate::nn::{self, Matrix, WeightType};
use crate::op::finite_threshold;
use crate::scope::scoped;

/// All weights of a model.
#[derive(Debug)]
pub(super) struct ModelWeights {
    /// `[vocabulary, hidden]`.
    pub(super) embeddings: Matrix,
    /// By layer.
    pub(super) blocks: Vec<BlockWeights>,
    /// `[hidden]`.
    pub(super) norm: wgpu::Buffer,
    /// `[vocabulary, hidden]`; none where the head is the embedding.
    pub(super) head: Option<Matrix>,
}

/// The weights of a block.
#[derive(Debug)]
pub(super) struct BlockWeights {
    /// `[hidden]`.
    pub(super) norm: wgpu::Buffer,
    /// Everything that reads the normed input: the mixer's projections, then the rows of λ.
    pub(super) in_proj: Matrix,
    /// As many as `in_proj` has rows.
    pub(super) in_bias: Option<wgpu::Buffer>,
    /// `[channels, width + 1]`, the bias last.
    pub(super) conv: wgpu::Buffer,
    /// What the mixer has besides.
    pub(super) mixer: MixerWeights,
    /// `[hidden, values]`.
    pub(super) out_proj: Matrix,
    /// `[hidden]`.
    pub(super) out_bias: Option<wgpu::Buffer>,
    /// The MLP, if there is one.
    pub(super) mlp: Option<MlpWeights>,
}

/// The weights of a mixer beside its projections and convolution.
#[derive(Debug)]
pub(super) enum MixerWeights {
    /// Of one that keeps states.
    Recurrent(RecurrentWeights),
    /// Softmax attention has none.
    Attention,
}

/// The weights of a mixer that keeps states.
#[derive(Debug)]
pub(super) struct RecurrentWeights {
    /// Mamba-2: Δ's bias, decay rates and D, `[3, heads]`; Gated DeltaNet: the bias and decay rates, `[2, heads]`.
    pub(super) heads: wgpu::Buffer,
    /// L and a of λ, `[2, heads, capacity]`; none for a plain checkpoint.
    pub(super) read: Option<wgpu::Buffer>,
    /// τ by head; empty where the schedule has none.
    pub(super) thresholds: Vec<f32>,
    /// The same as the operator takes them, a uniform buffer of whole 16-byte rows.
    pub(super) tau: wgpu::Buffer,
    /// The norm of the operator's output.
    pub(super) out_norm: wgpu::Buffer,
}

/// The weights of an MLP.
#[derive(Debug)]
pub(super) struct MlpWeights {
    /// `[hidden]`.
    pub(super) norm: wgpu::Buffer,
    /// The gate's rows, then those of what it opens, `[2 · inner, hidden]`.
    pub(super) up: Matrix,
    /// `[hidden, inner]`.
    pub(super) down: Matrix,
}

/// Reads tensors and writes them to the device.
struct Loader<'a, W> {
    gpu: &'a Gpu,
    weights: &'a mut W,
    weight_type: WeightType,
}

impl ModelWeights {
    /// Streams the weights of a model to the device; the host holds one tensor at a time.
    pub(super) async fn load(
        gpu: &Gpu,
        config: &ModelConfig,
        weights: &mut impl Weights<Tensor = Vec<f32>>,
        weight_type: WeightType,
    ) -> Result<Self> {
        config.check()?;
        let names = ModelTensors::load(config, &mut Names)?;
        let mut loader = Loader {
            gpu,
            weights,
            weight_type,
        };
        let embeddings = loader.matrix(config.hidden, &[&names.embeddings]).await?;
        let mut blocks = Vec::with_capacity(config.layers);
        for names in &names.blocks {
            blocks.push(loader.block(config, names).await?);
        }
        let norm = loader.vector("norm", &names.norm).await?;
        let head = match &names.head {
            Some(name) => Some(loader.matrix(config.hidden, &[name]).await?),
            None => None,
        };
        Ok(Self {
            embeddings,
            blocks,
            norm,
            head,
        })
    }

    /// Bytes of the matrices on the device.
    pub(super) fn bytes(&self) -> u64 {
        let mlp = |block: &BlockWeights| {
            let mlp = block.mlp.as_ref();
            mlp.map_or(0, |mlp| mlp.up.bytes() + mlp.down.bytes())
        };
        let block = |b: &BlockWeights| b.in_proj.bytes() + b.out_proj.bytes() + mlp(b);
        let blocks: u64 = self.blocks.iter().map(block).sum();
        let head = self.head.as_ref().map_or(0, Matrix::bytes);
        self.embeddings.bytes() + head + blocks
    }
}

impl<W: Weights<Tensor = Vec<f32>>> Loader<'_, W> {
    fn read(&mut self, name: &TensorName) -> Result<Vec<f32>> {
        self.weights.tensor(&name.name, &name.shape)
    }

    /// One matrix of the rows of several.
    async fn matrix(&mut self, columns: usize, names: &[&TensorName]) -> Result<Matrix> {
        let rows = names.iter().map(|name| name.len() / columns).sum();
        let matrix = Matrix::new(self.gpu, rows, columns, self.weight_type).await?;
        let mut row = 0;
        for name in names {
            let values = self.read(name)?;
            matrix.write(self.gpu, row, &values).await?;
            row += values.len() / columns;
        }
        Ok(matrix)
    }

    async fn vector(&mut self, label: &'static str, name: &TensorName) -> Result<wgpu::Buffer> {
        let values = self.read(name)?;
        nn::vector(self.gpu, label, &values).await
    }

    async fn block(
        &mut self,
        config: &ModelConfig,
        names: &BlockTensors<TensorName>,
    ) -> Result<BlockWeights> {
        let norm = self.vector("norm", &names.norm).await?;
        let dla = names.dla.as_ref();
        let mut block = match &names.mixer {
            MixerTensors::Mamba2(mixer) => self.mamba2(config, norm, mixer, dla).await?,
            MixerTensors::GatedDelta(mixer) => self.gated_delta(config, norm, mixer, dla).await?,
            MixerTensors::Attention(mixer) => self.attention(config, norm, mixer).await?,
        };
        if let Some(names) = &names.mlp {
            block.mlp = Some(self.mlp(config.hidden, names).await?);
        }
        Ok(block)
    }

    async fn mamba2(
        &mut self,
        config: &ModelConfig,
        norm: wgpu::Buffer,
        names: &Mamba2Tensors<TensorName>,
        dla: Option<&DlaTensors<TensorName>>,
    ) -> Result<BlockWeights> {
        let (hidden, dims) = (config.hidden, config.dims());
        let inner = dims.heads * dims.value_dim;
        let rows = [&names.in_proj].into_iter();
        let rows: Vec<_> = rows.chain(dla.map(|dla| &dla.lambda_proj)).collect();
        let in_proj = self.matrix(hidden, &rows).await?;
        let in_bias = match &names.in_bias {
            Some(name) => {
                let mut bias = self.read(name)?;
                bias.resize(in_proj.rows(), 0.0);
                Some(nn::vector(self.gpu, "in_bias", &bias).await?)
            }
            None => None,
        };
        let bias = names.conv_bias.as_ref();
        let bias = bias.map(|name| self.read(name)).transpose()?;
        let conv = BlockSpecs::of(config).conv;
        let conv = conv.pack(&self.read(&names.conv)?, bias.as_deref())?;
        let mut heads = self.read(&names.dt_bias)?;
        config.check_step_bias(&names.dt_bias.name, &heads)?;
        heads.extend(self.rates(&names.a_log)?);
        heads.extend(self.read(&names.d)?);
        Ok(BlockWeights {
            norm,
            in_proj,
            in_bias,
            conv: nn::vector(self.gpu, "conv", &conv).await?,
            mixer: self.recurrent(config, &heads, dla, &names.norm).await?,
            out_proj: self.matrix(inner, &[&names.out_proj]).await?,
            out_bias: match &names.out_bias {
                Some(name) => Some(self.vector("out_bias", name).await?),
                None => None,
            },
            mlp: None,
        })
    }

    async fn gated_delta(
        &mut self,
        config: &ModelConfig,
        norm: wgpu::Buffer,
        names: &GatedDeltaTensors<TensorName>,
        dla: Option<&DlaTensors<TensorName>>,
    ) -> Result<BlockWeights> {
        let (hidden, dims) = (config.hidden, config.dims());
        let values = dims.heads * dims.value_dim;
        let convolved = [&names.q, &names.k, &names.v];
        let mut rows: Vec<_> = convolved.iter().map(|part| &part.projection).collect();
        rows.extend(&names.g_proj);
        rows.extend([&names.a_proj, &names.b_proj]);
        rows.extend(dla.map(|dla| &dla.lambda_proj));
        let in_proj = self.matrix(hidden, &rows).await?;
        let conv = self.convolutions(config, convolved)?;
        let mut heads = self.read(&names.dt_bias)?;
        heads.extend(self.rates(&names.a_log)?);
        Ok(BlockWeights {
            norm,
            in_proj,
            in_bias: None,
            conv: nn::vector(self.gpu, "conv", &conv).await?,
            mixer: self.recurrent(config, &heads, dla, &names.o_norm).await?,
            out_proj: self.matrix(values, &[&names.o_proj]).await?,
            out_bias: None,
            mlp: None,
        })
    }

    async fn attention(
        &mut self,
        config: &ModelConfig,
        norm: wgpu::Buffer,
        names: &AttentionTensors<TensorName>,
    ) -> Result<BlockWeights> {
        let (hidden, dims) = (config.hidden, config.dims());
        let convolved = [&names.q, &names.k, &names.v];
        let rows = convolved.map(|part| &part.projection);
        let in_proj = self.matrix(hidden, &rows).await?;
        let conv = self.convolutions(config, convolved)?;
        let values = dims.heads * dims.value_dim;
        Ok(BlockWeights {
            norm,
            in_proj,
            in_bias: None,
            conv: nn::vector(self.gpu, "conv", &conv).await?,
            mixer: MixerWeights::Attention,
            out_proj: self.matrix(values, &[&names.o_proj]).await?,
            out_bias: None,
            mlp: None,
        })
    }

    /// The convolutions of queries, keys and values as one, packed.
    fn convolutions(
        &mut self,
        config: &ModelConfig,
        names: [&ConvolvedTensors<TensorName>; 3],
    ) -> Result<Vec<f32>> {
        let mut conv = Vec::new();
        for part in names {
            conv.extend(self.read(&part.conv)?);
        }
        BlockSpecs::of(config).conv.pack(&conv, None)
    }

    /// What a mixer with states has besides; `heads` as in [`RecurrentWeights`].
    async fn recurrent(
        &mut self,
        config: &ModelConfig,
        heads: &[f32],
        dla: Option<&DlaTensors<TensorName>>,
        out_norm: &TensorName,
    ) -> Result<MixerWeights> {
        let thresholds = self.thresholds(config, dla)?;
        Ok(MixerWeights::Recurrent(RecurrentWeights {
            heads: nn::vector(self.gpu, "heads", heads).await?,
            read: self.read_weights(dla).await?,
            tau: self.tau(config, &thresholds).await?,
            thresholds,
            out_norm: self.vector("out_norm", out_norm).await?,
        }))
    }

    async fn mlp(&mut self, hidden: usize, names: &MlpTensors<TensorName>) -> Result<MlpWeights> {
        let inner = names.gate.len() / hidden;
        Ok(MlpWeights {
            norm: self.vector("mlp_norm", &names.norm).await?,
            up: self.matrix(hidden, &[&names.gate, &names.up]).await?,
            down: self.matrix(inner, &[&names.down]).await?,
        })
    }

    /// The decay rates of A_log.
    fn rates(&mut self, name: &TensorName) -> Result<Vec<f32>> {
        Ok(self.read(name)?.into_iter().map(decay::rate).collect())
    }

    async fn read_weights(
        &mut self,
        dla: Option<&DlaTensors<TensorName>>,
    ) -> Result<Option<wgpu::Buffer>> {
        let Some(dla) = dla else {
            return Ok(None);
        };
        let mut read = self.read(&dla.lambda_scale)?;
        read.extend(self.read(&dla.lambda_bias)?);
        Ok(Some(nn::vector(self.gpu, "read", &read).await?))
    }

    /// τ of every head; a plain checkpoint and schedules of positions do not ask for it.
    fn thresholds(
        &mut self,
        config: &ModelConfig,
        dla: Option<&DlaTensors<TensorName>>,
    ) -> Result<Vec<f32>> {
        let tau = match dla {
            Some(dla) if config.operator().schedule == Schedule::Dynamic => self.read(&dla.tau)?,
            _ => Vec::new(),
        };
        check_thresholds(&tau)?;
        Ok(tau)
    }

    async fn tau(&self, config: &ModelConfig, thresholds: &[f32]) -> Result<wgpu::Buffer> {
        let mut tau: Vec<f32> = thresholds
            .iter()
            .map(|&tau| finite_threshold(tau))
            .collect();
        tau.resize(config.dims().heads.next_multiple_of(4), f32::MAX);
        let buffer = nn::uniform(self.gpu, "tau", tau.len()).await?;
        scoped(self.gpu.device(), "model", "tau", || {
            let queue = self.gpu.queue();
            queue.write_buffer(&buffer, 0, bytemuck::cast_slice(&tau));
        })
        .await?;
        Ok(buffer)
    }
}
