//! Groups of every dispatch.

use dla_core::Dims;

use super::{MAX_GROUPS, Plan, STEP_GROUPS, Segment};

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
    /// One group a sequence: open_state, close_state, the boundary scans, compact, step and step_decide.
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
pub(super) fn step_iterations(dims: &Dims) -> usize {
    let down = 256 / columns(dims).next_power_of_two();
    let rows = dims.key_dim.div_ceil(down).max(8);
    dims.capacity * (12 * rows + 32) + 256
}

/// The columns of a state: of four values, or of one where Dv is not a multiple of four.
pub(super) fn columns(dims: &Dims) -> usize {
    match dims.value_dim % 4 {
        0 => dims.value_dim / 4,
        _ => dims.value_dim,
    }
}

/// The widest slice that gives [`STEP_GROUPS`] groups, but at least 32 bytes.
pub(super) fn slice(dims: &Dims) -> usize {
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
