//! What every pass of a planned call has to do at the least: bytes to move and operations to make.

use dla_core::Backbone;

use crate::plan::Plan;

/// Work of one pass over a whole call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Bytes: every array that the pass reads or writes, once. States count as if every place were written in every
    /// chunk, the most that boundaries can cause.
    pub bytes: u64,
    /// Floating-point operations of its matrix products, both triangles of a square; scalar work is not counted.
    pub flop: u64,
}

impl Plan {
    /// The work of the pass named `pass`; none for an unknown name.
    ///
    /// ```
    /// use dla_core::{Backbone, Dims};
    /// use dla_wgpu::{Float, plan::{Limits, Plan}};
    /// let dims = Dims { batch: 1, tokens: 64, heads: 1, groups: 1, key_dim: 16, value_dim: 16, capacity: 2 };
    /// let plan = Plan::new(dims, Backbone::Decay, 64, Float::F32, Limits::PORTABLE)?;
    /// assert_eq!(plan.work("readout").flop, 2 * 64 * 2 * 16 * 16);
    /// # Ok::<(), dla_core::Error>(())
    /// ```
    pub fn work(&self, pass: &str) -> Work {
        let dims = &self.dims;
        let rows = dims.token_heads() as u64;
        let (key, value) = (self.arrays.key, self.arrays.value);
        let (dk, dv) = (dims.key_dim as u64, dims.value_dim as u64);
        let (k, c) = (dims.capacity as u64, self.chunk as u64);
        let chunks: u64 = self.segments.iter().map(|s| s.chunks as u64).sum();
        let cells = dims.sequences() as u64 * chunks;
        // The workspace holds one segment; a call fills it once for each.
        let all = |bytes: u64| bytes * chunks / self.segment_chunks.max(1) as u64;
        let (decay, slots) = (cells * c * 4, cells * c * 16);
        let versions = all(self.workspace.versions);
        let states = self.arrays.states * self.segments.len() as u64;
        let lambda = rows * k * 4;
        let delta = self.backbone == Backbone::Delta;
        let (bytes, flop) = match pass
            .trim_end_matches("_matrix")
            .trim_end_matches("_subgroup")
        {
            "chunk_decay" => (rows * 4 + decay, 0),
            "score" => (
                key + value + decay + all(self.workspace.scores + self.workspace.sums),
                2 * rows * c * (dk + dv),
            ),
            "open_state" | "close_state" => (2 * states / k, 0),
            "boundary_scan" => (key + value + decay + rows * 24, 0),
            "compact" => (rows * 24 + slots + all(self.workspace.entries), 0),
            "chunk_state" => (
                key + value + decay + versions + 2 * states,
                2 * rows * dk * dv,
            ),
            "readout" => (
                key + lambda + slots + versions + rows * dv * 4,
                2 * rows * k * dk * dv,
            ),
            "chunk_output" => (
                2 * key + 2 * value + lambda + slots + rows * dv * 4,
                2 * rows * c * if delta { dv } else { dk + dv },
            ),
            "delta_probe" => (key + value, 2 * rows * c * (dk + dv)),
            "score_delta" => (value + rows * 24, 2 * rows * c * (dv + c)),
            "boundary_scan_delta" => (key + value + rows * 24, 0),
            "delta_wy" => (key + rows * dk * 4, 4 * rows * c * dk),
            "delta_read" => (2 * key + rows * (dk + c) * 4, 2 * rows * c * (2 * dk + c)),
            "chunk_state_delta" => (
                key + value + 2 * versions + rows * dk * 4,
                4 * rows * k * dk * dv,
            ),
            "step" => (
                2 * self.arrays.states * dims.tokens as u64,
                4 * rows * k * dk * dv,
            ),
            "step_decide" => (states / k, 4 * rows * dk * dv),
            "step_move" => (2 * states, 4 * rows * k * dk * dv),
            _ => (0, 0),
        };
        Work { bytes, flop }
    }
}
