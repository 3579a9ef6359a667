//! Work side by side where threads exist: heads of sequences, rows of matrices.

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

/// Calls `work(index, row)` for every `width` consecutive values of `out`.
#[cfg(feature = "threads")]
pub(crate) fn for_rows<R: Send>(
    out: &mut [R],
    width: usize,
    work: impl Fn(usize, &mut [R]) + Sync,
) {
    use rayon::prelude::*;
    let rows = out.par_chunks_mut(width).enumerate();
    rows.for_each(|(index, row)| work(index, row));
}

/// Calls `work(index, row)` for every `width` consecutive values of `out`.
#[cfg(not(feature = "threads"))]
pub(crate) fn for_rows<R>(out: &mut [R], width: usize, work: impl Fn(usize, &mut [R])) {
    let rows = out.chunks_mut(width).enumerate();
    rows.for_each(|(index, row)| work(index, row));
}
