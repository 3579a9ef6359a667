//! The prepared work of a training step: forwards, the loss, and backwards.

use dla_core::Result;
use dla_core::dla::gate::GateMode;
use dla_core::model::ModelConfig;
use dla_wgpu::nn::backward::{self, Head, HeadBlock};
use dla_wgpu::nn::{self, Embedding, RmsNorm, Rows};
use dla_wgpu::{Float, Gpu};

use super::block::{Block, Call, Mixers};
use super::parameters::{Parameters, Which};
use super::shared::Shared;
use super::work::{Work, dispatched, record, record_pass};

/// Everything prepared for batches of one shape.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) rows: Rows,
    /// `[rows]`.
    pub(super) ids: wgpu::Buffer,
    /// The rows sorted by id, `[rows, 3]`.
    pub(super) order: wgpu::Buffer,
    /// `[rows]`.
    pub(super) targets: wgpu::Buffer,
    /// What a row's loss counts.
    pub(super) share: wgpu::Buffer,
    /// Each row's loss, and whether the target was the largest, `[rows, 2]`.
    pub(super) measures: wgpu::Buffer,
    /// The gate's θ, where a gate has one.
    pub(super) theta: Option<wgpu::Buffer>,
    /// From the ids to what the head reads.
    forward: Vec<Work>,
    /// The head and the loss, with their gradients.
    head: Vec<HeadBlock>,
    /// From the gradient of what the head reads to those of all tensors.
    backward: Vec<Work>,
}

impl Plan {
    /// Compiles, allocates and binds everything for batches of `rows`.
    pub(super) async fn new(
        gpu: &Gpu,
        config: &ModelConfig,
        (gate, float): (GateMode, Float),
        parameters: &Parameters,
        rows: Rows,
    ) -> Result<Self> {
        let (count, hidden) = (rows.count()?, config.hidden);
        let shared = Shared::new(gpu, config, float, rows).await?;
        let mixers = Mixers::new(gpu, config, gate, &shared).await?;
        let call = Call {
            gpu,
            parameters,
            shared: &shared,
        };
        let room = async |label, width: usize| nn::buffer(gpu, label, count * width).await;
        let layout = &parameters.layout;
        let ids = room("ids", 1).await?;
        let order = room("order", 3).await?;
        let targets = room("targets", 1).await?;
        let share = nn::buffer(gpu, "share", 1).await?;
        let measures = room("measures", 2).await?;
        let first = room("x", hidden).await?;
        let table = Embedding {
            table: parameters.matrix(layout.embeddings, Which::Value),
        };
        let embed = table.prepare(gpu, rows, &shared.lengths, &ids, &first);
        let mut forward = dispatched(embed.await?);
        let mut blocks = Vec::new();
        let mut x = first;
        for places in &layout.blocks {
            let block = Block::new(gpu, config, (&shared, &mixers), places, x).await?;
            forward.extend(block.forward(&call).await?);
            x = block.output().clone();
            blocks.push(block);
        }
        let norm = RmsNorm {
            weight: parameters.vector(layout.norm, Which::Value),
            spec: shared.specs.norm,
        };
        forward.extend(dispatched(
            norm.prepare(gpu, rows, &x, &shared.normed).await?,
        ));
        let head = Head::new(gpu, count, [config.vocabulary, hidden]).await?;
        let weights = [
            parameters.weight(layout.head),
            parameters.matrix(layout.head, Which::Gradient),
        ];
        let sides = [&targets, &share, &measures, &shared.scratch];
        let buffers = [&shared.normed, &shared.d_normed];
        let head = head.prepare(gpu, count, weights, sides, buffers).await?;
        let norm = backward::RmsNormGradient {
            weight: norm.weight,
            spec: norm.spec,
            residual: false,
            scratch: &shared.scratch,
            terms: &shared.terms,
        };
        let d_norm = parameters.vector(layout.norm, Which::Gradient);
        let buffers = [&x, &shared.d_normed, &shared.d_x];
        let mut backward = dispatched(norm.prepare(gpu, rows, buffers, d_norm).await?);
        for block in blocks.iter().rev() {
            backward.extend(block.backward(&call).await?);
        }
        let table = backward::EmbeddingGradient {
            d_table: parameters.matrix(layout.embeddings, Which::Gradient),
        };
        let table = table
            .prepare(gpu, count, [&ids, &order], &shared.d_x)
            .await?;
        backward.extend(dispatched(table));
        Ok(Self {
            rows,
            ids,
            order,
            targets,
            share,
            measures,
            theta: mixers.theta().cloned(),
            forward,
            head,
            backward,
        })
    }

    /// Records the way forwards and, where `gradients` are wanted, back.
    pub(super) fn record(&self, encoder: &mut wgpu::CommandEncoder, gradients: bool) {
        record(&self.forward, encoder);
        let head = self.head.iter().flat_map(|block| {
            let back = if gradients { &block.gradients[..] } else { &[] };
            block.loss.iter().chain(back)
        });
        record_pass(head, encoder);
        if gradients {
            record(&self.backward, encoder);
        }
    }
}
