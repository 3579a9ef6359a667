//! Work side by side where threads exist and it is worth their while: heads of sequences, rows of matrices.
//!
//! Every result is computed by one piece of work alone, so no bit depends on how many threads there are.

use crate::dims::Dims;
use crate::real::Real;

/// Values of one piece of [`map_values`].
const VALUES: usize = 1024;
/// The cost of a function with an exponential in it, in multiply-adds.
pub(crate) const EXPONENTIAL: usize = 32;

/// Multiply-adds below which waking a thread costs more than it brings.
#[cfg(feature = "threads")]
const WORTHWHILE: usize = 1 << 17;

/// Calls `work(sequence, head)` for every pair; the results come in `[batch, heads]` order.
#[cfg(feature = "threads")]
pub(crate) fn map_sequences<T: Send>(
    dims: &Dims,
    work: impl Fn(usize, usize) -> T + Sync,
) -> Vec<T> {
    use rayon::prelude::*;
    let one = |i| work(i / dims.heads, i % dims.heads);
    // Every token changes every state.
    let cost = dims.states_len().saturating_mul(dims.tokens);
    match cost < WORTHWHILE {
        true => (0..dims.sequences()).map(one).collect(),
        false => (0..dims.sequences()).into_par_iter().map(one).collect(),
    }
}

/// Calls `work(sequence, head)` for every pair; the results come in `[batch, heads]` order.
#[cfg(not(feature = "threads"))]
pub(crate) fn map_sequences<T>(dims: &Dims, work: impl Fn(usize, usize) -> T) -> Vec<T> {
    (0..dims.sequences())
        .map(|i| work(i / dims.heads, i % dims.heads))
        .collect()
}

/// Calls `work(index, row)` for every `width` consecutive values of `out`. `cost` is about how many multiply-adds all of
/// them make.
#[cfg(feature = "threads")]
pub(crate) fn for_rows<R: Send>(
    out: &mut [R],
    width: usize,
    cost: usize,
    work: impl Fn(usize, &mut [R]) + Sync,
) {
    use rayon::prelude::*;
    if cost < WORTHWHILE {
        let rows = out.chunks_mut(width).enumerate();
        return rows.for_each(|(index, row)| work(index, row));
    }
    let rows = out.par_chunks_mut(width).enumerate();
    rows.for_each(|(index, row)| work(index, row));
}

/// Calls `work(index, row)` for every `width` consecutive values of `out`.
#[cfg(not(feature = "threads"))]
pub(crate) fn for_rows<R>(
    out: &mut [R],
    width: usize,
    _cost: usize,
    work: impl Fn(usize, &mut [R]),
) {
    let rows = out.chunks_mut(width).enumerate();
    rows.for_each(|(index, row)| work(index, row));
}

/// Replaces every value of `x` by `change(index, value)`, each costing about `cost` multiply-adds.
pub(crate) fn map_values<R: Real>(x: &mut [R], cost: usize, change: impl Fn(usize, R) -> R + Sync) {
    let cost = x.len().saturating_mul(cost);
    for_rows(x, VALUES, cost, |index, piece| {
        for (i, x) in piece.iter_mut().enumerate() {
            *x = change(index * VALUES + i, *x);
        }
    });
}
