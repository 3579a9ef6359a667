//! Bytes of the arrays and of the workspace.

use dla_core::{Backbone, Dims, Error, Result};

use super::{Limits, MAX_BATCH};
use crate::spec::Float;

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
    /// The open state during the scan and workspace to measure it in, `[B·H, 2·Dk·Dv + 1]`, f32.
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

/// The sizes of the caller's arrays, if `dims` is in range and the device can bind them.
pub(super) fn bindable_arrays(dims: &Dims, float: Float, limits: Limits) -> Result<ArrayBytes> {
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

pub(super) fn arrays(dims: &Dims, float: Float) -> ArrayBytes {
    ArrayBytes {
        key: dims.key_len() as u64 * float.bytes(),
        value: dims.value_len() as u64 * float.bytes(),
        control: dims.token_heads() as u64 * (dims.capacity as u64 + 2) * 4,
        trace: dims.token_heads() as u64 * 8,
        states: dims.states_len() as u64 * 4,
        scalars: dims.sequences() as u64 * (1 + 3 * dims.capacity as u64) * 4,
    }
}

pub(super) fn workspace(
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
        open: sequences * (2 * d + 1) * 4,
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
