//! What one sequence carries in one layer: its sizes, and the way between the device's bytes and the host's arrays.

use std::sync::Arc;

use dla_core::model::{LayerState, ModelConfig};
use dla_core::{Cache, Dims, Schedule};

use super::specs::{BlockSpecs, MixerSpecs};
use crate::nn::AttentionSpec;
use crate::op::pack;

/// Sizes of one sequence in one layer.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    dims: Dims,
    /// What the mixer keeps.
    pub(super) keeps: Keeps,
    /// Channels of each convolution.
    channels: Vec<usize>,
    /// Inputs that a convolution keeps.
    inputs: usize,
}

/// What a mixer keeps of earlier tokens.
#[derive(Clone, Copy, Debug)]
pub(super) enum Keeps {
    /// States under a schedule.
    States(Schedule),
    /// Softmax attention's keys and values of all of them.
    Tokens(AttentionSpec),
}

impl Layout {
    pub(super) fn of(config: &ModelConfig) -> Self {
        let (channels, width) = config.convolutions();
        Self {
            dims: config.dims(),
            keeps: match BlockSpecs::of(config).mixer {
                MixerSpecs::Mamba2(..) | MixerSpecs::GatedDelta(..) => {
                    Keeps::States(config.operator().schedule)
                }
                MixerSpecs::Attention(spec) => Keeps::Tokens(spec),
            },
            channels,
            inputs: width - 1,
        }
    }

    /// Bytes of a sequence of `tokens` tokens: its convolutions' inputs; its states and their scalars, or its keys and
    /// values.
    pub(super) fn bytes(&self, tokens: usize) -> Vec<u64> {
        let conv = self.inputs * self.channels.iter().sum::<usize>();
        let words = match self.keeps {
            Keeps::States(_) => vec![conv, self.dims.states_len(), self.scalars()],
            Keeps::Tokens(spec) => vec![conv, tokens * spec.kept()],
        };
        words.into_iter().map(|words| words as u64 * 4).collect()
    }

    fn scalars(&self) -> usize {
        self.dims.heads * (1 + 3 * self.dims.capacity)
    }

    /// The token counts of every state by head, `[heads, capacity]` for each sequence whose scalars these are.
    pub(super) fn counts(&self, schedule: Schedule, scalars: &[u8]) -> Vec<u32> {
        let words: Vec<u32> = bytemuck::pod_collect_to_vec(scalars);
        let records = words.chunks_exact(1 + 3 * self.dims.capacity);
        records
            .flat_map(|record| pack::counts(schedule, record))
            .collect()
    }

    /// A sequence's layer from its bytes, in the order of [`Layout::bytes`].
    pub(super) fn host(&self, parts: &[Vec<u8>]) -> LayerState {
        let floats: Vec<f32> = bytemuck::pod_collect_to_vec(&parts[1]);
        let (cache, keys, values) = match self.keeps {
            Keeps::States(schedule) => {
                let scalars: Vec<u32> = bytemuck::pod_collect_to_vec(&parts[2]);
                let cache = pack::cache_from_device(&self.dims, schedule, &floats, &scalars);
                (cache, Vec::new(), Vec::new())
            }
            Keeps::Tokens(spec) => {
                let tokens = floats.chunks_exact(spec.kept());
                let halves = tokens.map(|token| token.split_at(spec.kept() / 2));
                let (keys, values): (Vec<_>, Vec<_>) = halves.unzip();
                (Cache::new(&self.dims), keys.concat(), values.concat())
            }
        };
        LayerState {
            conv: self.host_inputs(&parts[0]),
            cache: Arc::new(cache),
            keys,
            values,
        }
    }

    /// The convolutions' inputs, each convolution's by themselves.
    fn host_inputs(&self, bytes: &[u8]) -> Vec<Vec<f32>> {
        let rows: Vec<f32> = bytemuck::pod_collect_to_vec(bytes);
        let all: usize = self.channels.iter().sum();
        let mut first = 0;
        let conv = self.channels.iter().map(|&channels| {
            let columns = first..first + channels;
            first = columns.end;
            let rows = rows.chunks_exact(all.max(1)).take(self.inputs);
            rows.flat_map(|row| row[columns.clone()].iter().copied())
                .collect()
        });
        conv.collect()
    }

    /// The bytes of a sequence's layer, in the order of [`Layout::bytes`].
    pub(super) fn device(&self, state: &LayerState) -> Vec<Vec<u8>> {
        let mut inputs: Vec<f32> = Vec::new();
        for t in 0..self.inputs {
            for (part, &channels) in state.conv.iter().zip(&self.channels) {
                inputs.extend_from_slice(&part[t * channels..][..channels]);
            }
        }
        let bytes = |values: &[f32]| bytemuck::cast_slice(values).to_vec();
        let mut parts = vec![bytes(&inputs)];
        match self.keeps {
            Keeps::States(schedule) => {
                let (states, scalars) = pack::cache_to_device(&self.dims, schedule, &state.cache);
                parts.extend([bytes(&states), bytemuck::cast_slice(&scalars).to_vec()]);
            }
            Keeps::Tokens(spec) => {
                let half = spec.kept() / 2;
                let tokens = state
                    .keys
                    .chunks_exact(half)
                    .zip(state.values.chunks_exact(half));
                let pairs: Vec<_> = tokens.flat_map(|(key, value)| [key, value]).collect();
                parts.push(bytes(&pairs.concat()));
            }
        }
        parts
    }
}
