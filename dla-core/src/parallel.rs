//! Work for each head of each sequence, side by side where threads exist.

use crate::dims::Dims;

/// Calls `work(sequence, head)` for every pair; the results come in `[batch, heads]` order.
#[cfg(feature = "threads")]
pub(crate) fn map_sequences<T: Send>(
    dims: &Dims,
    work: impl Fn(usize, usize) -> T + Sync,
) -> Vec<T> {
    use rayon::prelude::*;
    (0..dims.sequences())
        .into_par_iter()
        .map(|i| work(i / dims.heads, i % dims.heads))
        .collect()
}

/// Calls `work(sequence, head)` for every pair; the results come in `[batch, heads]` order.
#[cfg(not(feature = "threads"))]
pub(crate) fn map_sequences<T>(dims: &Dims, work: impl Fn(usize, usize) -> T) -> Vec<T> {
    (0..dims.sequences())
        .map(|i| work(i / dims.heads, i % dims.heads))
        .collect()
}
