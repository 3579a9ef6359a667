//! Pure arithmetic: the sizes and a device's limits give every dispatch and every buffer.
//!
//! No wgpu types here. Shipped shaders run without bounds checks on native, so this is where their
//! bounds are proved: every buffer holds exactly the records that the dispatches index.
//!
//! One dispatch never does more than [`MAX_DISPATCH_FLOP`] of matrix work nor walks more than
//! [`MAX_DISPATCH_TOKENS`] tokens one after another, so a driver's time-out (about two seconds)
//! is out of reach at any sequence length: longer calls are cut into segments, down to one chunk. Only the
//! batch is the caller's to split.

use dla_core::{Backbone, Dims, Error, Result};

pub use self::groups::{Groups, grid};
use self::groups::{columns, slice, step_iterations};
pub(crate) use self::sizes::bindable;
pub use self::sizes::{ArrayBytes, DeltaBytes, WorkspaceBytes};
use self::sizes::{arrays, bindable_arrays, workspace};
use crate::spec::Float;

mod groups;
mod sizes;

/// The most tokens that a sequential pass walks in one dispatch.
pub const MAX_DISPATCH_TOKENS: usize = 4096;
/// The most floating-point operations of one dispatch: a third of a second at 0.1 TFLOP/s.
pub const MAX_DISPATCH_FLOP: u64 = 1 << 35;
/// The most bytes of states that one dispatch of the token-by-token pass moves: a third of a second at 12 GB/s.
pub const MAX_DISPATCH_BYTES: u64 = 1 << 32;
/// The most loop iterations of one thread on a CPU adapter: Mesa's leaves loops silently after 65,535.
pub const MAX_LOOP_ITERATIONS: usize = 65_535;
/// The most tokens of a chunk: the slot map keeps one bit for each in 64.
pub const MAX_CHUNK: usize = 64;
/// Values of a state's widest row that the chunk passes take, a thread each; wider ones are walked token by token.
pub const MAX_CHUNK_VALUES: usize = 256;
/// Batch items of one call, as many as the lengths' uniform buffer holds.
pub const MAX_BATCH: usize = 4096;
/// Groups that keep a device busy while one token moves the states.
pub const STEP_GROUPS: usize = 192;
/// Groups along one dimension of a grid.
pub const MAX_GROUPS: u32 = 65_535;

/// What the plan needs to know of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the largest storage binding.
    pub max_binding: u64,
    /// Bytes that one buffer of the workspace should stay below where it can.
    pub workspace: u64,
    /// Loop iterations of one thread of a chunk pass; [`MAX_LOOP_ITERATIONS`] on CPU drivers.
    pub iterations: usize,
}

impl Limits {
    /// WebGPU's default limits.
    pub const PORTABLE: Self = Self {
        max_binding: 128 << 20,
        workspace: 128 << 20,
        iterations: usize::MAX,
    };
}

/// A run of tokens that is dispatched together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its first token.
    pub first_token: usize,
    /// Its chunks; the last one may be partly beyond the call's tokens. 0 where tokens are walked one by one.
    pub chunks: usize,
    /// Its tokens, none beyond the call's.
    pub tokens: usize,
}

/// Everything that one call dispatches and allocates.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Sizes of the call.
    pub dims: Dims,
    /// What states go through at a token.
    pub backbone: Backbone,
    /// Tokens of one chunk.
    pub chunk: usize,
    /// Chunks that the workspace holds for each sequence.
    pub segment_chunks: usize,
    /// Columns of a state that one group of the step passes moves: of four values, or of one where Dv is not a
    /// multiple of four; a power of two.
    pub slice: usize,
    /// The dispatches' segments in order; none when there are no tokens.
    pub segments: Vec<Segment>,
    /// The caller's arrays.
    pub arrays: ArrayBytes,
    /// The operator's own buffers.
    pub workspace: WorkspaceBytes,
}

impl Plan {
    /// Plans a call.
    ///
    /// # Errors
    /// [`Error::is_input`] for sizes out of range; [`Error::is_unsupported`] where an array or a cache
    /// is larger than the device can bind.
    ///
    /// ```
    /// use dla_core::{Backbone, Dims};
    /// use dla_wgpu::{Float, plan::{Limits, Plan}};
    /// let dims = Dims { batch: 1, tokens: 1000, heads: 4, groups: 1, key_dim: 32, value_dim: 32, capacity: 8 };
    /// let plan = Plan::new(dims, Backbone::Decay, 64, Float::F32, Limits::PORTABLE)?;
    /// assert_eq!(plan.segments.iter().map(|s| s.chunks).sum::<usize>(), 16);
    /// # Ok::<(), dla_core::Error>(())
    /// ```
    pub fn new(
        dims: Dims,
        backbone: Backbone,
        chunk: usize,
        float: Float,
        limits: Limits,
    ) -> Result<Self> {
        Self::capped(dims, backbone, chunk, float, limits, usize::MAX)
    }

    /// [`Plan::new`] with segments of at most `most` chunks.
    pub(crate) fn capped(
        dims: Dims,
        backbone: Backbone,
        chunk: usize,
        float: Float,
        limits: Limits,
        most: usize,
    ) -> Result<Self> {
        if chunk == 0 || chunk > MAX_CHUNK {
            return Err(Error::input(
                "op",
                "chunk",
                format!("1 to {MAX_CHUNK}"),
                chunk,
            ));
        }
        let arrays = bindable_arrays(&dims, float, limits)?;
        if dims.value_dim > MAX_CHUNK_VALUES {
            let expected = format!("at most {MAX_CHUNK_VALUES} in chunks");
            return Err(Error::unsupported(
                "op",
                "value_dim",
                expected,
                dims.value_dim,
            ));
        }
        let chunks = dims.tokens.div_ceil(chunk);
        let one = workspace(&dims, backbone, chunk, float, 1);
        let by_flop = (MAX_DISPATCH_FLOP / chunk_flop(&dims, backbone, chunk).max(1)) as usize;
        let by_loops = limits.iterations / chunk_iterations(&dims, backbone, chunk);
        let most = most.min(by_flop).min(by_loops);
        let segment_chunks = segment_chunks(&one, most, chunk, limits).min(chunks.max(1));
        let workspace = workspace(&dims, backbone, chunk, float, segment_chunks);
        for (name, bytes) in workspace.each() {
            bindable(name, bytes, limits)?;
        }
        Ok(Self {
            dims,
            backbone,
            chunk,
            segment_chunks,
            slice: columns(&dims).next_power_of_two(),
            segments: segments(dims.tokens, segment_chunks * chunk, Some(chunk)),
            arrays,
            workspace,
        })
    }

    /// Plans a call that walks its tokens one by one; it needs no workspace.
    ///
    /// # Errors
    /// As [`Plan::new`].
    pub fn steps(dims: Dims, backbone: Backbone, float: Float, limits: Limits) -> Result<Self> {
        let arrays = bindable_arrays(&dims, float, limits)?;
        if columns(&dims) > 256 {
            let expected = "at most 256, or a multiple of 4";
            return Err(Error::unsupported(
                "op",
                "value_dim",
                expected,
                dims.value_dim,
            ));
        }
        let by_bytes = (MAX_DISPATCH_BYTES / (2 * arrays.states)) as usize;
        let by_loops = limits.iterations / step_iterations(&dims);
        Ok(Self {
            dims,
            backbone,
            chunk: 1,
            segment_chunks: 0,
            slice: columns(&dims).next_power_of_two(),
            segments: segments(dims.tokens, by_bytes.min(by_loops).max(1), None),
            arrays,
            workspace: WorkspaceBytes::default(),
        })
    }

    /// Plans a call of one token that one pass decides and another one carries out, in slices of columns.
    ///
    /// # Errors
    /// As [`Plan::new`].
    ///
    /// ```
    /// use dla_core::{Backbone, Dims};
    /// use dla_wgpu::{Float, plan::{Limits, Plan, STEP_GROUPS}};
    /// let dims = Dims { batch: 1, tokens: 1, heads: 48, groups: 1, key_dim: 128, value_dim: 64, capacity: 30 };
    /// let plan = Plan::step(dims, Backbone::Decay, Float::F32, Limits::PORTABLE)?;
    /// assert!(plan.groups(&plan.segments[0]).step_move >= STEP_GROUPS);
    /// # Ok::<(), dla_core::Error>(())
    /// ```
    pub fn step(dims: Dims, backbone: Backbone, float: Float, limits: Limits) -> Result<Self> {
        Ok(Self {
            slice: slice(&dims),
            workspace: WorkspaceBytes {
                changes: dims.sequences() as u64 * (3 + dims.capacity as u64) * 4,
                ..Default::default()
            },
            ..Self::steps(dims, backbone, float, limits)?
        })
    }

    /// The largest number of tokens of one call at these sizes whose arrays can be bound, in whole chunks.
    ///
    /// 0 when not even one chunk can.
    pub fn tokens_per_call(dims: &Dims, chunk: usize, float: Float, limits: Limits) -> usize {
        let one = arrays(&Dims { tokens: 1, ..*dims }, float);
        let widest = [one.key, one.value, one.control, one.trace]
            .into_iter()
            .max()
            .unwrap_or(1);
        (limits.max_binding / widest) as usize / chunk * chunk
    }
}

/// Segments of at most `most` tokens; without a `chunk` they have no chunks.
fn segments(tokens: usize, most: usize, chunk: Option<usize>) -> Vec<Segment> {
    let segment = |first_token: usize| {
        let tokens = most.min(tokens - first_token);
        Segment {
            first_token,
            chunks: chunk.map_or(0, |chunk| tokens.div_ceil(chunk)),
            tokens,
        }
    };
    (0..tokens).step_by(most).map(segment).collect()
}

/// As many chunks as the workspace budget, the token cap and `most` allow, at least one; `one` is the workspace of
/// one chunk.
fn segment_chunks(one: &WorkspaceBytes, most: usize, chunk: usize, limits: Limits) -> usize {
    let largest = one
        .each()
        .into_iter()
        .map(|(_, bytes)| bytes)
        .max()
        .unwrap_or(1);
    let budget = limits.workspace.min(limits.max_binding);
    let by_memory = (budget / largest.max(1)) as usize;
    by_memory.min(MAX_DISPATCH_TOKENS / chunk).min(most).max(1)
}

/// The most expensive dispatch's work for one chunk of every sequence: reading all carried states, which the
/// delta rule does once more, and writes them too, to take them through the chunk.
fn chunk_flop(dims: &Dims, backbone: Backbone, chunk: usize) -> u64 {
    let products = if backbone == Backbone::Delta { 2 } else { 1 };
    products * 2 * (dims.sequences() * chunk * dims.capacity) as u64 * dims.state_len() as u64
}

/// Loop iterations of one thread for one chunk of the passes that walk chunks, at most; the twin of their WGSL.
fn chunk_iterations(dims: &Dims, backbone: Backbone, chunk: usize) -> usize {
    let columns = dims.value_dim.next_power_of_two().max(32);
    let rows = dims.key_dim.div_ceil(256 / columns) + dims.key_dim.div_ceil(32);
    let measured = chunk * (3 * dims.key_dim.div_ceil(256 / columns) + 256 / columns + 40);
    let scan = 2 * (chunk / 8 + 1) * (rows + 100) + measured;
    let compact = chunk * (4 + 4 * dims.capacity);
    if backbone != Backbone::Delta {
        return scan.max(compact);
    }
    let tall = dims.key_dim.div_ceil(64);
    let state = 3 * dims.key_dim + chunk * (1 + 3 * tall) + 40 * tall;
    scan.max(compact).max(dims.capacity.div_ceil(2) * state)
}
