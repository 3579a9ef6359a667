//! The backward pass's part of the plan: its buffers and dispatches, over the same segments as the forward passes
//! that it runs again.
//!
//! As in [`plan`](crate::plan) no wgpu types, and every buffer holds exactly the records that dispatches index.

use dla_core::{Backbone, Dims, Result};

use crate::plan::{Limits, MAX_DISPATCH_FLOP, Plan, Segment, bindable};
use crate::spec::Float;

/// The arrays of gradients, owned by the caller; bytes, all values f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GradientBytes {
    /// By `q` or `k`, `[B, T, G, Dk]`.
    pub key: u64,
    /// By `v` or `o`, `[B, T, H, Dv]`.
    pub value: u64,
    /// By g, β and λ by rank, `[B, T, H, 2 + K]`.
    pub control: u64,
    /// By states in time order, `[B·H, K, Dk, Dv]`.
    pub states: u64,
    /// By τ, `[H]`.
    pub tau: u64,
}

/// The backward pass's own buffers, beside those of the forward passes; bytes, all values f32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackwardBytes {
    /// λ by entered state, `[B·H, chunks, C, K]`.
    pub read_weights: u64,
    /// By the states in time order at every chunk's end, `[B·H, chunks, K, Dk, Dv]`.
    pub state_gradients: u64,
    /// By every head's queries, `[B·H, chunks, C, Dk]`.
    pub query_gradients: u64,
    /// By every head's keys, `[B·H, chunks, C, Dk]`.
    pub key_gradients: u64,
    /// Three triangles, `[B·H, chunks, 3, C, C]`: what mixes values, the gradient by scores, that by read weights.
    pub mix_gradients: u64,
    /// Inner products of states and gradients, `[B·H, chunks, (⌈Dk/128⌉·K + 3·⌈Dk/64⌉)·C + 3·K]`.
    pub dots: u64,
    /// By the gate of every token, `[B·H, T]`, of the whole call.
    pub gate_gradients: u64,
    /// The gated delta rule's own; all 0 for other backbones.
    pub delta: DeltaBytes,
}

/// The buffers that only the gated delta rule's backward pass needs; bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeltaBytes {
    /// By the final states, taken back through the chunk, `[B·H, chunks, K, Dk, Dv]`.
    pub carried_gradients: u64,
    /// By the chunks' products of transitions, `[B·H, chunks, Dk, Dk]`.
    pub transition_gradients: u64,
    /// By K̃, `[B·H, chunks, C, Dk]`.
    pub write_gradients: u64,
    /// By e^A k, `[B·H, chunks, C, Dk]`.
    pub erase_gradients: u64,
    /// Six triangles, `[B·H, chunks, 6, C, C]`: by the scores, and what decays and write strengths take from them.
    pub solve_gradients: u64,
}

impl BackwardBytes {
    pub(crate) fn each(&self) -> [(&'static str, u64); 12] {
        let delta = &self.delta;
        [
            ("read_weights", self.read_weights),
            ("state_gradients", self.state_gradients),
            ("query_gradients", self.query_gradients),
            ("key_gradients", self.key_gradients),
            ("mix_gradients", self.mix_gradients),
            ("dots", self.dots),
            ("gate_gradients", self.gate_gradients),
            ("carried_gradients", delta.carried_gradients),
            ("transition_gradients", delta.transition_gradients),
            ("write_gradients", delta.write_gradients),
            ("erase_gradients", delta.erase_gradients),
            ("solve_gradients", delta.solve_gradients),
        ]
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.each().iter().map(|(_, bytes)| bytes).sum()
    }
}

/// Everything that one call's backward pass dispatches and allocates.
#[derive(Clone, Debug, PartialEq)]
pub struct BackwardPlan {
    /// The forward passes that are run again, and the segments.
    pub forward: Plan,
    /// The caller's arrays of gradients.
    pub arrays: GradientBytes,
    /// The backward pass's own buffers.
    pub workspace: BackwardBytes,
}

impl BackwardPlan {
    /// Plans the backward pass of a call.
    ///
    /// # Errors
    /// As [`Plan::new`].
    ///
    /// ```
    /// use dla_core::{Backbone, Dims};
    /// use dla_wgpu::{Float, backward_plan::BackwardPlan, plan::Limits};
    /// let dims = Dims { batch: 1, tokens: 1000, heads: 4, groups: 1, key_dim: 32, value_dim: 32, capacity: 8 };
    /// let plan = BackwardPlan::new(dims, Backbone::Decay, 64, Float::F32, Limits::PORTABLE)?;
    /// assert_eq!(plan.arrays.states, 4 * 8 * 32 * 32 * 4);
    /// # Ok::<(), dla_core::Error>(())
    /// ```
    pub fn new(
        dims: Dims,
        backbone: Backbone,
        chunk: usize,
        float: Float,
        limits: Limits,
    ) -> Result<Self> {
        dims.check()?;
        let arrays = arrays(&dims);
        for (name, bytes) in [
            ("d_q", arrays.key),
            ("d_v", arrays.value),
            ("d_control", arrays.control),
            ("d_states", arrays.states),
        ] {
            bindable(name, bytes, limits)?;
        }
        let one = workspace(&dims, backbone, chunk, 1);
        let most = most_chunks(&dims, backbone, chunk, &one, limits);
        let forward = Plan::capped(dims, backbone, chunk, float, limits, most)?;
        let workspace = workspace(&dims, backbone, chunk, forward.segment_chunks);
        for (name, bytes) in workspace.each() {
            bindable(name, bytes, limits)?;
        }
        Ok(Self {
            forward,
            arrays,
            workspace,
        })
    }

    /// The groups of a segment's dispatches.
    pub fn groups(&self, segment: &Segment) -> BackwardGroups {
        let dims = &self.forward.dims;
        let forward = self.forward.groups(segment);
        let tokens = segment.chunks * self.forward.chunk;
        BackwardGroups {
            chunk: forward.chunk,
            reads: forward.chunk * read_tiles(dims),
            keys: forward.chunk * dims.key_dim.div_ceil(64),
            values: forward.chunk * dims.value_dim.div_ceil(64),
            states: forward.chunk_state,
            states_delta: forward.chunk_state_delta,
            outers: forward.chunk_state * segment.chunks,
            transitions: forward.chunk * dims.key_dim.div_ceil(64).pow(2),
            shared: (dims.batch * tokens * dims.groups * dims.key_dim).div_ceil(256),
            heads: dims.heads,
        }
    }
}

/// Groups of each backward pass over one segment; the twin of the constants in the pass's WGSL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackwardGroups {
    /// One group a chunk: read_weights, mix_gradient, carry_gradient, solve_gradient and those by weights, decays and gates.
    pub chunk: usize,
    /// One group a chunk and 64 rows of the states, or 128 where there are more: read_gradient.
    pub reads: usize,
    /// One group a chunk and 64 columns of keys: write_gradient, key_gradient and erase_gradient.
    pub keys: usize,
    /// One group a chunk and 64 columns of values: value_gradient.
    pub values: usize,
    /// One group a tile of a state: state_gradient.
    pub states: usize,
    /// One group 16 columns of a state: state_gradient_delta.
    pub states_delta: usize,
    /// One group a chunk and a tile of a state: outer_gradient.
    pub outers: usize,
    /// One group a chunk and 64 by 64 of its product of transitions: transition_gradient.
    pub transitions: usize,
    /// One group 256 values of the keys: group_gradient.
    pub shared: usize,
    /// One group a head: tau_gradient.
    pub heads: usize,
}

/// Tiles of a state's rows that one group of read_gradient takes.
fn read_tiles(dims: &Dims) -> usize {
    match dims.key_dim {
        ..=64 => 1,
        wide => wide.div_ceil(128),
    }
}

fn arrays(dims: &Dims) -> GradientBytes {
    GradientBytes {
        key: dims.key_len() as u64 * 4,
        value: dims.value_len() as u64 * 4,
        control: dims.token_heads() as u64 * (dims.capacity as u64 + 2) * 4,
        states: dims.states_len() as u64 * 4,
        tau: dims.heads as u64 * 4,
    }
}

fn workspace(dims: &Dims, backbone: Backbone, chunk: usize, chunks: usize) -> BackwardBytes {
    let cells = (dims.sequences() * chunks) as u64;
    let (c, k, dk) = (chunk as u64, dims.capacity as u64, dims.key_dim as u64);
    BackwardBytes {
        read_weights: cells * c * k * 4,
        state_gradients: cells * k * dims.state_len() as u64 * 4,
        query_gradients: cells * c * dk * 4,
        key_gradients: cells * c * dk * 4,
        mix_gradients: cells * 3 * c * c * 4,
        dots: cells * ((read_tiles(dims) as u64 * k + dk.div_ceil(64) * 3) * c + 3 * k) * 4,
        gate_gradients: dims.token_heads() as u64 * 4,
        delta: match backbone {
            Backbone::Delta => delta_bytes(dims, c, cells),
            Backbone::Plain | Backbone::Decay => DeltaBytes::default(),
        },
    }
}

fn delta_bytes(dims: &Dims, c: u64, cells: u64) -> DeltaBytes {
    let (k, dk) = (dims.capacity as u64, dims.key_dim as u64);
    DeltaBytes {
        carried_gradients: cells * k * dims.state_len() as u64 * 4,
        transition_gradients: cells * dk * dk * 4,
        write_gradients: cells * c * dk * 4,
        erase_gradients: cells * c * dk * 4,
        solve_gradients: cells * 6 * c * c * 4,
    }
}

/// The most chunks of a segment whose buffers stay within the workspace budget, whose dispatches within their share of
/// work, and whose loops end where a CPU adapter's would break off; `one` is the workspace of one chunk.
fn most_chunks(
    dims: &Dims,
    backbone: Backbone,
    chunk: usize,
    one: &BackwardBytes,
    limits: Limits,
) -> usize {
    let by_chunk = BackwardBytes {
        gate_gradients: 0,
        ..*one
    };
    let sizes = by_chunk.each().into_iter().map(|(_, bytes)| bytes);
    let budget = limits.workspace.min(limits.max_binding);
    let by_memory = (budget / sizes.max().unwrap_or(1).max(1)) as usize;
    by_memory
        .min((MAX_DISPATCH_FLOP / chunk_flop(dims, backbone).max(1)) as usize)
        .min(limits.iterations / chunk_iterations(dims, backbone, chunk))
        .max(1)
}

/// The work of one chunk of every sequence in the one dispatch that outgrows the forward passes': the gradient by the
/// product of transitions, whose tiles are Dk wide where a chunk has C tokens.
fn chunk_flop(dims: &Dims, backbone: Backbone) -> u64 {
    match backbone {
        Backbone::Delta => {
            let rows = dims.sequences() * dims.capacity * dims.key_dim;
            2 * rows as u64 * dims.state_len() as u64
        }
        Backbone::Plain | Backbone::Decay => 0,
    }
}

/// Loop iterations of one thread for one chunk of the passes that walk chunks, at most; the twin of their WGSL.
fn chunk_iterations(dims: &Dims, backbone: Backbone, chunk: usize) -> usize {
    if backbone == Backbone::Delta {
        let tall = dims.key_dim.div_ceil(64);
        return dims.capacity * (dims.key_dim + tall * (chunk + 30)) + 2 * dims.capacity;
    }
    let fours = dims.capacity.div_ceil(4).min(8);
    let staging = 4 * fours + 16;
    dims.capacity.div_ceil(4 * fours) * (chunk * (1 + fours) + 2 * staging + 8 * fours)
        + 2 * dims.capacity
}
