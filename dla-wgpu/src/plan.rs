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

use crate::spec::Float;

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

/// The arrays that a call reads and writes, owned by the caller; bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayBytes {
    /// `q` or `k`, `[B, T, G, Dk]`.
    pub key: u64,
    /// `v` or `o`, `[B, T, H, Dv]`.
    pub value: u64,
    /// g, β and λ by rank, `[B, T, H, 2 + K]`, f32.
    pub control: u64,
    /// Score (f32 bits) and event, `[B·H, T]`, two words each. An event holds the boundary in bit 0, `merge_at` + 1
    /// in bits 8 to 15 and the live states after the step in bits 16 to 23.
    pub trace: u64,
    /// States by place, `[B·H, K, Dk, Dv]`, f32.
    pub states: u64,
    /// Count, then n, information and place of every state, `[B·H, 1 + 3 K]` words.
    pub scalars: u64,
}

/// The operator's own buffers; bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkspaceBytes {
    /// Running log decay, `[B·H, chunks, C]`, f32.
    pub decay: u64,
    /// Score of every token against every start, `[B·H, chunks, C(C−1)/2]`, f32.
    pub scores: u64,
    /// R_t0, |s_t|² and the next boundary, `[B·H, chunks, 3, C]`, f32; for the delta rule A, β, |k_t|², |s_t|²
    /// and the next boundary, `[B·H, chunks, 5, C]`.
    pub sums: u64,
    /// The open state during the scan, `[B·H, Dk·Dv + 1]`, f32.
    pub open: u64,
    /// Slot map, `[B·H, chunks, C]`, 128 bits each.
    pub slots: u64,
    /// Entered states, `[B·H, chunks + 1, 1 + K]`, two words each.
    pub entries: u64,
    /// States at every chunk's entry by place, `[B·H, chunks, K, Dk, Dv]`, the element type.
    pub versions: u64,
    /// What is read from entered states, `[B·H, chunks, C, Dv]`, f32.
    pub carried: u64,
    /// What a call's one token changed in the order, `[B·H, 3 + K]` words; 0 unless two passes step it.
    pub changes: u64,
    /// The gated delta rule's own; all 0 for other backbones.
    pub delta: DeltaBytes,
}

/// The buffers that only the gated delta rule needs; bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeltaBytes {
    /// P, what keys read of the chunk's values, `[B·H, chunks, C, C]`, f32.
    pub probes: u64,
    /// What keys read entered states with, and what they read of the chunk, `[B·H, chunks, C, Dk + Dv]`, f32.
    pub probe_keys: u64,
    /// e^A k, `[B·H, chunks, Dk, C]`, f32.
    pub erase_keys: u64,
    /// K̃, `[B·H, chunks, C, Dk]`, f32.
    pub write_keys: u64,
    /// q̃, `[B·H, chunks, C, Dk]`, the element type.
    pub read_queries: u64,
    /// M, `[B·H, chunks, C, C]`, f32.
    pub mixes: u64,
}

impl WorkspaceBytes {
    pub(crate) fn each(&self) -> [(&'static str, u64); 15] {
        let delta = &self.delta;
        [
            ("decay", self.decay),
            ("scores", self.scores),
            ("sums", self.sums),
            ("open", self.open),
            ("slots", self.slots),
            ("entries", self.entries),
            ("versions", self.versions),
            ("carried", self.carried),
            ("changes", self.changes),
            ("probes", delta.probes),
            ("probe_keys", delta.probe_keys),
            ("erase_keys", delta.erase_keys),
            ("write_keys", delta.write_keys),
            ("read_queries", delta.read_queries),
            ("mixes", delta.mixes),
        ]
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.each().iter().map(|(_, bytes)| bytes).sum()
    }
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

/// The sizes of the caller's arrays, if `dims` is in range and the device can bind them.
fn bindable_arrays(dims: &Dims, float: Float, limits: Limits) -> Result<ArrayBytes> {
    dims.check()?;
    if dims.batch > MAX_BATCH {
        return Err(Error::unsupported(
            "op",
            "batch",
            format!("at most {MAX_BATCH}"),
            dims.batch,
        ));
    }
    let arrays = arrays(dims, float);
    for (name, bytes) in [
        ("q", arrays.key),
        ("v", arrays.value),
        ("control", arrays.control),
        ("trace", arrays.trace),
        ("states", arrays.states),
    ] {
        bindable(name, bytes, limits)?;
    }
    Ok(arrays)
}

pub(crate) fn bindable(name: &'static str, bytes: u64, limits: Limits) -> Result<()> {
    if bytes > limits.max_binding {
        return Err(Error::unsupported(
            "op",
            name,
            format!(
                "at most {} bytes, the device's largest binding",
                limits.max_binding
            ),
            format!("{bytes} bytes"),
        )
        .advise("split the batch or the tokens; the state carries over"));
    }
    Ok(())
}

fn arrays(dims: &Dims, float: Float) -> ArrayBytes {
    ArrayBytes {
        key: dims.key_len() as u64 * float.bytes(),
        value: dims.value_len() as u64 * float.bytes(),
        control: dims.token_heads() as u64 * (dims.capacity as u64 + 2) * 4,
        trace: dims.token_heads() as u64 * 8,
        states: dims.states_len() as u64 * 4,
        scalars: dims.sequences() as u64 * (1 + 3 * dims.capacity as u64) * 4,
    }
}

fn workspace(
    dims: &Dims,
    backbone: Backbone,
    chunk: usize,
    float: Float,
    chunks: usize,
) -> WorkspaceBytes {
    let sequences = dims.sequences() as u64;
    let (c, k, d) = (chunk as u64, dims.capacity as u64, dims.state_len() as u64);
    let cells = sequences * chunks as u64;
    let delta = backbone == Backbone::Delta;
    WorkspaceBytes {
        decay: cells * c * 4,
        scores: cells * (c * (c - 1) / 2) * 4,
        sums: cells * if delta { 5 } else { 3 } * c * 4,
        open: sequences * (d + 1) * 4,
        slots: cells * c * 16,
        entries: sequences * (chunks as u64 + 1) * (k + 1) * 8,
        versions: cells * k * d * float.bytes(),
        carried: cells * c * dims.value_dim as u64 * 4,
        changes: 0,
        delta: if delta {
            delta_bytes(dims, float, c, cells)
        } else {
            DeltaBytes::default()
        },
    }
}

fn delta_bytes(dims: &Dims, float: Float, c: u64, cells: u64) -> DeltaBytes {
    let (dk, dv) = (dims.key_dim as u64, dims.value_dim as u64);
    DeltaBytes {
        probes: cells * c * c * 4,
        probe_keys: cells * c * (dk + dv) * 4,
        erase_keys: cells * dk * c * 4,
        write_keys: cells * c * dk * 4,
        read_queries: cells * c * dk * float.bytes(),
        mixes: cells * c * c * 4,
    }
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
    let scan = 2 * (chunk / 8 + 1) * (rows + 100);
    let compact = chunk * (4 + 4 * dims.capacity);
    if backbone != Backbone::Delta {
        return scan.max(compact);
    }
    let tall = dims.key_dim.div_ceil(64);
    let state = 3 * dims.key_dim + chunk * (1 + 3 * tall) + 40 * tall;
    scan.max(compact).max(dims.capacity.div_ceil(2) * state)
}

/// The grid of a dispatch of `groups` groups: rows of at most [`MAX_GROUPS`].
///
/// ```
/// assert_eq!(dla_wgpu::plan::grid(70_000), (65_535, 2));
/// ```
pub fn grid(groups: usize) -> (u32, u32) {
    let width = groups.min(MAX_GROUPS as usize);
    let rows = groups.div_ceil(width.max(1));
    (width as u32, rows as u32)
}

/// Groups of each pass over one segment; the twin of the constants in the pass's WGSL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups {
    /// One group a chunk: chunk_decay, score, delta_wy, delta_read and score_delta.
    pub chunk: usize,
    /// One group a chunk and 64 columns of keys or values.
    pub delta_probe: usize,
    /// One group a sequence: open_state, the boundary scans, compact, step and step_decide.
    pub sequence: usize,
    /// One group a tile of a state.
    pub chunk_state: usize,
    /// One group 16 columns of a state.
    pub chunk_state_delta: usize,
    /// One group a slice of a state.
    pub step_move: usize,
    /// One group a chunk and 64 columns: readout and chunk_output.
    pub output: usize,
}

impl Plan {
    /// The groups of a segment's dispatches.
    pub fn groups(&self, segment: &Segment) -> Groups {
        let cells = self.dims.sequences() * segment.chunks;
        Groups {
            chunk: cells,
            delta_probe: cells
                * (self.dims.key_dim.div_ceil(64) + self.dims.value_dim.div_ceil(64)),
            sequence: self.dims.sequences(),
            chunk_state: self.dims.sequences() * state_tiles(&self.dims),
            chunk_state_delta: self.dims.sequences() * self.dims.value_dim.div_ceil(16),
            step_move: self.dims.sequences() * columns(&self.dims).div_ceil(self.slice),
            output: cells * self.dims.value_dim.div_ceil(64),
        }
    }
}

/// Loop iterations of one thread for one token of the step passes, at most; the twin of the constants in their WGSL.
fn step_iterations(dims: &Dims) -> usize {
    let down = 256 / columns(dims).next_power_of_two();
    let rows = dims.key_dim.div_ceil(down).max(8);
    dims.capacity * (12 * rows + 32) + 256
}

/// The columns of a state: of four values, or of one where Dv is not a multiple of four.
fn columns(dims: &Dims) -> usize {
    match dims.value_dim % 4 {
        0 => dims.value_dim / 4,
        _ => dims.value_dim,
    }
}

/// The widest slice that gives [`STEP_GROUPS`] groups, but at least 32 bytes.
fn slice(dims: &Dims) -> usize {
    let columns = columns(dims);
    let narrowest = 8 * columns / dims.value_dim;
    let mut slice = columns.next_power_of_two();
    while slice > narrowest && dims.sequences() * columns.div_ceil(slice) < STEP_GROUPS {
        slice /= 2;
    }
    slice
}

fn state_tiles(dims: &Dims) -> usize {
    let columns = columns(dims);
    let across = if columns <= 4 { 4 } else { 8 };
    dims.key_dim.div_ceil(128 / across) * columns.div_ceil(across)
}
