//! The prepared work of a training step: forwards, the loss, and backwards.

use dla_core::Result;
use dla_core::dla::gate::GateMode;
use dla_core::model::ModelConfig;
use dla_wgpu::model::BlockSpecs;
use dla_wgpu::nn::backward::{self, Head, HeadBlock};
use dla_wgpu::nn::{self, Embedding, RmsNorm, Rows};
use dla_wgpu::op::BoundBackward;
use dla_wgpu::plan::MAX_BATCH;
use dla_wgpu::{Dispatch, Float, Gpu};

use super::block::{Block, Call, Mixers};
use super::parameters::{Parameters, Which};

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
    /// The gate's θ, where a gate has one.
    pub(super) theta: Option<wgpu::Buffer>,
    /// From the ids to what the head reads.
    forward: Vec<Work>,
    /// The head and the loss, with their gradients.
    head: Vec<HeadBlock>,
    /// From the gradient of what the head reads to those of all tensors.
    backward: Vec<Work>,
}

/// The buffers between passes that all blocks share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) rows: Rows,
    /// Element type of the operator's arrays.
    pub(super) float: Float,
    pub(super) specs: BlockSpecs,
    /// Tokens of each sequence.
    pub(super) lengths: wgpu::Buffer,
    /// Zeros that convolutions begin with.
    pub(super) conv_state: wgpu::Buffer,
    pub(super) normed: wgpu::Buffer,
    pub(super) product: wgpu::Buffer,
    pub(super) d_x: wgpu::Buffer,
    pub(super) d_normed: wgpu::Buffer,
    pub(super) d_y: wgpu::Buffer,
    pub(super) d_projected: wgpu::Buffer,
    pub(super) d_mixed: wgpu::Buffer,
    pub(super) d_opened: wgpu::Buffer,
    pub(super) d_product: wgpu::Buffer,
    pub(super) terms: wgpu::Buffer,
    pub(super) scratch: wgpu::Buffer,
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

fn record(work: &[Work], encoder: &mut wgpu::CommandEncoder) {
    let mut work = work.iter().peekable();
    while let Some(next) = work.next() {
        match next {
            Work::Dispatch(first) => {
                let more = std::iter::from_fn(|| match work.peek() {
                    Some(Work::Dispatch(dispatch)) => work.next().map(|_| dispatch),
                    _ => None,
                });
                record_pass(std::iter::once(first).chain(more), encoder);
            }
            Work::Clear(buffer) => encoder.clear_buffer(buffer, 0, None),
            Work::Copy(from, to, bytes) => {
                encoder.copy_buffer_to_buffer(from, 0, to, 0, *bytes);
            }
            Work::Backward(bound) => bound.record(encoder),
        }
    }
}

fn record_pass<'a>(
    dispatches: impl Iterator<Item = &'a Dispatch>,
    encoder: &mut wgpu::CommandEncoder,
) {
    let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
        label: Some("dla train"),
        timestamp_writes: None,
    });
    dispatches.for_each(|dispatch| dispatch.record(&mut pass));
}

/// Dispatches as work.
pub(super) fn dispatched(dispatches: Vec<Dispatch>) -> Vec<Work> {
    dispatches.into_iter().map(Work::Dispatch).collect()
}

impl Shared {
    async fn new(gpu: &Gpu, config: &ModelConfig, float: Float, rows: Rows) -> Result<Self> {
        let (count, hidden) = (rows.count()?, config.hidden);
        let (dims, specs) = (config.dims(), BlockSpecs::of(config).with(float));
        let lengths = nn::uniform(gpu, "lengths", MAX_BATCH).await?;
        let tokens = vec![rows.tokens as u32; rows.batch];
        gpu.queue()
            .write_buffer(&lengths, 0, bytemuck::cast_slice(&tokens));
        let room = async |label, width: usize| nn::buffer(gpu, label, count * width).await;
        let values = dims.heads * dims.value_dim;
        let inner = specs.inner.unwrap_or(1);
        let read = 2 * dims.heads * dims.capacity;
        Ok(Self {
            rows,
            float,
            specs,
            lengths,
            conv_state: nn::buffer(gpu, "conv_state", specs.conv.state_len(rows.batch)).await?,
            normed: room("normed", hidden).await?,
            product: room("product", inner).await?,
            d_x: room("d_x", hidden).await?,
            d_normed: room("d_normed", hidden).await?,
            d_y: room("d_y", values).await?,
            d_projected: room("d_projected", specs.stride).await?,
            d_mixed: room("d_mixed", specs.conv.channels).await?,
            d_opened: room("d_opened", 2 * inner).await?,
            d_product: room("d_product", inner).await?,
            terms: room("terms", hidden.max(values).max(read)).await?,
            scratch: backward::scratch(gpu).await?,
        })
    }
}
