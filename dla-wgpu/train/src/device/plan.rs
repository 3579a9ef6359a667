//! The prepared work of a training step: forwards, the loss, and backwards.

use std::sync::Arc;

use dla_core::dla::gate::Gate;
use dla_core::model::ModelConfig;
use dla_core::{Dims, Result, Schedule};
use dla_wgpu::model::BlockSpecs;
use dla_wgpu::nn::backward::{self, Head};
use dla_wgpu::nn::{self, Embedding, RmsNorm, Rows};
use dla_wgpu::op::{
    Arrays, Backward, BoundBackward, Decider, DeviceCache, GradientArrays, Operator, Options,
};
use dla_wgpu::{Dispatch, Gpu};

use super::block::Block;
use super::parameters::{Parameters, Which};

/// Batch items of the uniform buffers of lengths and positions.
const MAX_BATCH: usize = 4096;

/// Work in order.
#[derive(Debug)]
pub(super) enum Work {
    /// One dispatch.
    Dispatch(Dispatch),
    /// Zeros in the place of a buffer.
    Clear(wgpu::Buffer),
    /// Bytes from one buffer to another.
    Copy(wgpu::Buffer, wgpu::Buffer, u64),
    /// The operator backwards.
    Backward(Box<BoundBackward>),
}

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
    pub(super) work: Vec<Work>,
}

/// The buffers between passes that all blocks share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) rows: Rows,
    pub(super) specs: BlockSpecs,
    pub(super) dims: Dims,
    /// Without the outputs and the trace, which each block has for itself.
    pub(super) arrays: Arrays,
    pub(super) cache: DeviceCache,
    pub(super) start: DeviceCache,
    pub(super) operator: Operator,
    pub(super) backward: Arc<Backward>,
    pub(super) gradients: GradientArrays,
    pub(super) positions: wgpu::Buffer,
    /// Zeros that convolutions begin with.
    pub(super) conv_state: wgpu::Buffer,
    pub(super) normed: wgpu::Buffer,
    pub(super) y: wgpu::Buffer,
    pub(super) product: wgpu::Buffer,
    pub(super) d_x: wgpu::Buffer,
    pub(super) d_normed: wgpu::Buffer,
    pub(super) d_projected: wgpu::Buffer,
    pub(super) d_mixed: wgpu::Buffer,
    pub(super) d_opened: wgpu::Buffer,
    pub(super) d_product: wgpu::Buffer,
    pub(super) terms: wgpu::Buffer,
    pub(super) scratch: wgpu::Buffer,
    /// Events that the schedule fixes beforehand, for every block; none where scores decide.
    pub(super) events: Option<Vec<u32>>,
}

impl Plan {
    /// Compiles, allocates and binds everything for batches of `rows`.
    pub(super) async fn new(
        gpu: &Gpu,
        config: &ModelConfig,
        gate: &Gate,
        parameters: &Parameters,
        rows: Rows,
    ) -> Result<Self> {
        let (count, hidden) = (rows.count()?, config.hidden);
        let shared = Shared::new(gpu, config, gate, rows).await?;
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
        let lengths = &shared.arrays.lengths;
        let embed = table.prepare(gpu, rows, lengths, &ids, &first).await?;
        let mut work = dispatched(embed);
        let mut blocks = Vec::new();
        let mut x = first;
        for places in &layout.blocks {
            let block = Block::new(gpu, config, &shared, places, x).await?;
            work.extend(block.forward(gpu, parameters, &shared).await?);
            x = block.output().clone();
            blocks.push(block);
        }
        let norm = RmsNorm {
            weight: parameters.vector(layout.norm, Which::Value),
            spec: shared.specs.norm,
        };
        work.extend(dispatched(
            norm.prepare(gpu, rows, &x, &shared.normed).await?,
        ));
        let head = Head::new(gpu, count, [config.vocabulary, hidden]).await?;
        let weights = [Which::Value, Which::Gradient].map(|w| parameters.matrix(layout.head, w));
        let sides = [&targets, &share, &measures, &shared.scratch];
        let buffers = [&shared.normed, &shared.d_normed];
        work.extend(dispatched(
            head.prepare(gpu, count, weights, sides, buffers).await?,
        ));
        let norm = backward::RmsNormGradient {
            weight: norm.weight,
            spec: norm.spec,
            residual: false,
            scratch: &shared.scratch,
            terms: &shared.terms,
        };
        let d_norm = parameters.vector(layout.norm, Which::Gradient);
        let buffers = [&x, &shared.d_normed, &shared.d_x];
        work.extend(dispatched(norm.prepare(gpu, rows, buffers, d_norm).await?));
        for block in blocks.iter().rev() {
            work.extend(block.backward(gpu, parameters, &shared).await?);
        }
        let table = backward::EmbeddingGradient {
            d_table: parameters.matrix(layout.embeddings, Which::Gradient),
        };
        let table = table
            .prepare(gpu, count, [&ids, &order], &shared.d_x)
            .await?;
        work.extend(dispatched(table));
        Ok(Self {
            rows,
            ids,
            order,
            targets,
            share,
            measures,
            work,
        })
    }

    /// Records all of it.
    pub(super) fn record(&self, encoder: &mut wgpu::CommandEncoder) {
        let mut work = self.work.iter().peekable();
        while let Some(next) = work.next() {
            match next {
                Work::Dispatch(dispatch) => {
                    let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
                        label: Some("dla train"),
                        timestamp_writes: None,
                    });
                    dispatch.record(&mut pass);
                    while let Some(Work::Dispatch(dispatch)) =
                        work.next_if(|next| matches!(next, Work::Dispatch(_)))
                    {
                        dispatch.record(&mut pass);
                    }
                }
                Work::Clear(buffer) => encoder.clear_buffer(buffer, 0, None),
                Work::Copy(from, to, bytes) => {
                    encoder.copy_buffer_to_buffer(from, 0, to, 0, *bytes);
                }
                Work::Backward(bound) => bound.record(encoder),
            }
        }
    }
}

/// Dispatches as work.
pub(super) fn dispatched(dispatches: Vec<Dispatch>) -> Vec<Work> {
    dispatches.into_iter().map(Work::Dispatch).collect()
}

impl Shared {
    async fn new(gpu: &Gpu, config: &ModelConfig, gate: &Gate, rows: Rows) -> Result<Self> {
        let (count, hidden) = (rows.count()?, config.hidden);
        let (settings, specs) = (config.operator(), BlockSpecs::of(config)?);
        let dims = Dims {
            batch: rows.batch,
            tokens: rows.tokens,
            ..config.dims()
        };
        let decider = match settings.schedule {
            Schedule::Dynamic => Decider::Scores,
            _ => Decider::Given { measure: false },
        };
        let options = Options::default();
        let operator = Operator::new(gpu, &dims, &settings, decider, &options).await?;
        let backward = Arc::new(Backward::new(gpu, &dims, &settings, gate.mode, &options).await?);
        let arrays = operator.arrays().await?;
        let lengths = vec![rows.tokens as u32; rows.batch];
        gpu.queue()
            .write_buffer(&arrays.lengths, 0, bytemuck::cast_slice(&lengths));
        let gradients = backward.arrays().await?;
        let theta = (gate.theta as f32).to_le_bytes();
        gpu.queue().write_buffer(&gradients.theta, 0, &theta);
        let room = async |label, width: usize| nn::buffer(gpu, label, count * width).await;
        let values = dims.heads * dims.value_dim;
        let inner = specs.inner.unwrap_or(1);
        let read = 2 * dims.heads * dims.capacity;
        Ok(Self {
            rows,
            specs,
            dims,
            cache: operator.cache().await?,
            start: operator.cache().await?,
            positions: nn::uniform(gpu, "positions", MAX_BATCH).await?,
            conv_state: nn::buffer(gpu, "conv_state", specs.conv.state_len(rows.batch)).await?,
            normed: room("normed", hidden).await?,
            y: room("y", values).await?,
            product: room("product", inner).await?,
            d_x: room("d_x", hidden).await?,
            d_normed: room("d_normed", hidden).await?,
            d_projected: room("d_projected", specs.stride).await?,
            d_mixed: room("d_mixed", specs.conv.channels).await?,
            d_opened: room("d_opened", 2 * inner).await?,
            d_product: room("d_product", inner).await?,
            terms: room("terms", hidden.max(values).max(read)).await?,
            scratch: backward::scratch(gpu).await?,
            events: events(config, &dims),
            arrays,
            operator,
            backward,
            gradients,
        })
    }
}

/// The events of a call from new states on, where the schedule looks at positions only.
fn events(config: &ModelConfig, dims: &Dims) -> Option<Vec<u32>> {
    let settings = config.operator();
    if settings.schedule == Schedule::Dynamic {
        return None;
    }
    let decisions = dla_core::dla::schedule::decide(dims, &settings, None, None)
        .ok()?
        .0;
    Some(dla_wgpu::op::events(dims, settings.schedule, &decisions))
}
