//! The mixers of a tile: what all blocks' share, and the dispatches of one, from the convolution to what the last projection
//! reads.

use dla_core::{Dims, Result, Schedule};

use super::Model;
use super::rooms::Call;
use super::sequences::MixerMemory;
use super::specs::{BlockSpecs, MixerSpecs};
use super::weights::{MixerWeights, RecurrentWeights};
use crate::nn::{
    self, AttentionScratch, AttentionSpec, CachedAttention, DeltaArrays, DeltaArraysSpec,
    DeltaOutput, DeltaOutputSpec, Mamba2Arrays, Mamba2ArraysSpec, Mamba2Output, Mamba2OutputSpec,
    Rows, Sources,
};
use crate::op::{self, Arrays, Bound, Decider, DeviceCache, Operator};
use crate::plan::MAX_BATCH;
use crate::{Dispatch, Gpu};

/// What the mixers of all blocks share.
#[derive(Debug)]
pub(super) enum Mixers {
    /// Those that keep states.
    Recurrent(Box<Recurrent>),
    /// Softmax attention.
    Attention(Attention),
}

/// The settings of a mixer that keeps states.
#[derive(Clone, Copy, Debug)]
enum RecurrentSpecs {
    Mamba2(Mamba2ArraysSpec, Mamba2OutputSpec),
    GatedDelta(DeltaArraysSpec, DeltaOutputSpec),
}

/// The operator, its arrays, and what it tells.
#[derive(Debug)]
pub(super) struct Recurrent {
    specs: RecurrentSpecs,
    operator: Operator,
    /// The trace has scores and events of every layer.
    arrays: Arrays,
    /// Bytes from one layer's trace to the next one's.
    pub(super) trace_stride: u64,
}

/// What attention needs beside a block's buffers.
#[derive(Debug)]
pub(super) struct Attention {
    spec: AttentionSpec,
    lengths: wgpu::Buffer,
    /// As the memory of the tile's sequences has it.
    room: usize,
    scratch: AttentionScratch,
}

impl Mixers {
    /// Compiles and allocates for calls of `rows`; with `replay` decisions are given, and attention has `room`.
    pub(super) async fn new(model: &Model, rows: Rows, replay: bool, room: usize) -> Result<Self> {
        let specs = match BlockSpecs::of(model.config()).mixer {
            MixerSpecs::Mamba2(arrays, output) => RecurrentSpecs::Mamba2(arrays, output),
            MixerSpecs::GatedDelta(arrays, output) => RecurrentSpecs::GatedDelta(arrays, output),
            MixerSpecs::Attention(spec) => {
                let attention = Attention::new(model.gpu(), spec, rows, room).await?;
                return Ok(Self::Attention(attention));
            }
        };
        let recurrent = Recurrent::new(model, specs, rows, replay).await?;
        Ok(Self::Recurrent(recurrent.into()))
    }

    /// Tokens of each sequence, a uniform buffer.
    pub(super) fn lengths(&self) -> &wgpu::Buffer {
        match self {
            Self::Recurrent(shared) => &shared.arrays.lengths,
            Self::Attention(shared) => &shared.lengths,
        }
    }

    /// The operator's side, which tells of states.
    pub(super) fn recurrent(&self) -> Option<&Recurrent> {
        match self {
            Self::Recurrent(shared) => Some(shared),
            Self::Attention(_) => None,
        }
    }
}

impl Attention {
    async fn new(gpu: &Gpu, spec: AttentionSpec, rows: Rows, room: usize) -> Result<Self> {
        Ok(Self {
            spec,
            lengths: nn::uniform(gpu, "lengths", MAX_BATCH).await?,
            room,
            scratch: AttentionScratch::new(gpu, spec, rows, room).await?,
        })
    }
}

/// Who decides in a model's calls; with `replay` decisions are given.
pub(super) fn decider(schedule: Schedule, replay: bool) -> Decider {
    match schedule {
        Schedule::Dynamic if !replay => Decider::Scores,
        schedule => Decider::Given {
            measure: schedule == Schedule::Dynamic,
        },
    }
}

impl Recurrent {
    async fn new(model: &Model, specs: RecurrentSpecs, rows: Rows, replay: bool) -> Result<Self> {
        let (gpu, config) = (model.gpu(), model.config());
        let dims = Dims {
            batch: rows.batch,
            tokens: rows.tokens,
            ..config.dims()
        };
        let settings = config.operator();
        let decider = decider(settings.schedule, replay);
        let options = op::Options::default();
        let operator = Operator::new(gpu, &dims, &settings, decider, &options).await?;
        let alignment = u64::from(gpu.device().limits().min_storage_buffer_offset_alignment);
        let trace_stride = operator.plan().arrays.trace.next_multiple_of(alignment);
        let traces = (trace_stride * config.layers as u64 / 4) as usize;
        let arrays = Arrays {
            trace: nn::buffer(gpu, "traces", traces).await?,
            ..operator.arrays().await?
        };
        Ok(Self {
            specs,
            operator,
            arrays,
            trace_stride,
        })
    }

    /// Scores and events of every layer.
    pub(super) fn traces(&self) -> &wgpu::Buffer {
        &self.arrays.trace
    }

    /// g, β and λ of the block that was recorded last, `[batch, tokens, heads, 2 + capacity]`.
    pub(super) fn control(&self) -> &wgpu::Buffer {
        &self.arrays.control
    }

    /// The operator's dispatches in layer `index`.
    async fn bind(
        &self,
        index: usize,
        weights: &RecurrentWeights,
        cache: &DeviceCache,
    ) -> Result<Bound> {
        let arrays = Arrays {
            tau: weights.tau.clone(),
            trace_offset: index as u64 * self.trace_stride,
            ..self.arrays.clone()
        };
        self.operator.bind(&arrays, cache).await
    }
}

impl Call<'_> {
    /// A mixer's own dispatches.
    pub(super) async fn mixer(
        &self,
        mixers: &Mixers,
        weights: &MixerWeights,
        memory: &MixerMemory,
    ) -> Result<Vec<Dispatch>> {
        match (mixers, weights, memory) {
            (
                Mixers::Recurrent(shared),
                MixerWeights::Recurrent(weights),
                MixerMemory::States(cache),
            ) => self.recurrent(shared, weights, cache).await,
            (
                Mixers::Attention(shared),
                MixerWeights::Attention,
                MixerMemory::Tokens(keys_values),
            ) => self.attention(shared, keys_values).await,
            _ => unreachable!("parts of different mixers"),
        }
    }

    /// What the operator takes, the operator, and what is made of its output.
    async fn recurrent(
        &self,
        shared: &Recurrent,
        weights: &RecurrentWeights,
        cache: &DeviceCache,
    ) -> Result<Vec<Dispatch>> {
        let (gpu, rows, rooms, arrays) = (self.gpu, self.rows, self.rooms, &shared.arrays);
        let operator = shared.bind(self.index, weights, cache).await?;
        let sources = Sources {
            mixed: &rooms.mixed,
            projected: &rooms.projected,
            positions: self.positions,
        };
        let (heads, read_weights) = (&weights.heads, weights.read.as_ref());
        let weight = &weights.out_norm;
        let (mut dispatches, output) = match shared.specs {
            RecurrentSpecs::Mamba2(spec, output) => {
                let layer = Mamba2Arrays {
                    spec,
                    heads,
                    read_weights,
                };
                let output = Mamba2Output {
                    spec: output,
                    heads,
                    weight,
                };
                let from = [&arrays.o, &rooms.mixed, &rooms.projected];
                (
                    layer.prepare(gpu, rows, &sources, arrays).await?,
                    output.prepare(gpu, rows, from, &rooms.y).await?,
                )
            }
            RecurrentSpecs::GatedDelta(spec, output) => {
                let layer = DeltaArrays {
                    spec,
                    heads,
                    read_weights,
                };
                let output = DeltaOutput {
                    spec: output,
                    weight,
                };
                let from = [&arrays.o, &rooms.projected];
                (
                    layer.prepare(gpu, rows, &sources, arrays).await?,
                    output.prepare(gpu, rows, from, &rooms.y).await?,
                )
            }
        };
        dispatches.extend_from_slice(operator.dispatches());
        dispatches.extend(output);
        Ok(dispatches)
    }

    /// Attention over what is kept, the call's own keys and values among it.
    async fn attention(
        &self,
        shared: &Attention,
        keys_values: &wgpu::Buffer,
    ) -> Result<Vec<Dispatch>> {
        let attention = CachedAttention {
            spec: shared.spec,
            room: shared.room,
            lengths: &shared.lengths,
            positions: self.positions,
            keys_values,
        };
        let buffers = [&self.rooms.mixed, &self.rooms.y];
        let prepared = attention.prepare(self.gpu, self.rows, buffers, &shared.scratch);
        prepared.await
    }
}
