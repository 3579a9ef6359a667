//! The arrays of one call, and what it gives back.

use crate::cache::Cache;
use crate::decisions::{Decisions, Trace};

/// The arrays of one call, borrowed; shapes as in [`Dims`](crate::Dims).
///
/// `q` and `k` arrive as the operator uses them: no feature map, normalisation or scaling happens inside.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a, R> {
    /// Queries `[batch, tokens, groups, key_dim]`.
    pub q: &'a [R],
    /// Keys `[batch, tokens, groups, key_dim]`.
    pub k: &'a [R],
    /// Values `[batch, tokens, heads, value_dim]`.
    pub v: &'a [R],
    /// Log decay `[batch, tokens, heads]`, at most 0 and finite; required by decay and delta, absent for plain (delta: absent means 0).
    pub g: Option<&'a [R]>,
    /// Write strength `[batch, tokens, heads]`; required by delta, absent otherwise.
    pub beta: Option<&'a [R]>,
    /// Read weights by rank (by level under Fenwick) `[batch, tokens, heads, capacity]`.
    pub lambda: &'a [R],
    /// Threshold per head `[heads]`; +∞ keeps a single state. Read by the dynamic schedule only, empty otherwise.
    pub tau: &'a [R],
    /// Tokens of each sequence `[batch]`, at most `tokens`; absent means all full.
    pub lengths: Option<&'a [u32]>,
    /// Decisions to follow instead of the schedule's own; scores are still measured under the dynamic schedule.
    pub replay: Option<&'a Decisions>,
}

/// What one call gives back.
#[derive(Clone, Debug, PartialEq)]
pub struct Output<R> {
    /// `[batch, tokens, heads, value_dim]`; zeros beyond a shorter item's length.
    pub o: Vec<R>,
    /// What was measured and decided.
    pub trace: Trace,
    /// The states after the last token.
    pub cache: Cache<R>,
}
