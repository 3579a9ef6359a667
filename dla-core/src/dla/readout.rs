//! States and a query give the output (`docs/algorithm.md` §6).

use super::schedule;
use super::state::State;
use crate::config::Schedule;
use crate::real::Real;
use crate::vector::add_scaled;

/// Columns of a state that are summed side by side, few enough for the registers of any processor.
const COLUMNS: usize = 16;

/// `out = qᵀ S` for one state `[key_dim, value_dim]`.
pub fn read<R: Real>(q: &[R], state: &[R], out: &mut [R]) {
    let width = out.len();
    let (blocks, rest) = out.as_chunks_mut::<COLUMNS>();
    for (block, out) in blocks.iter_mut().enumerate() {
        let mut sums = [R::ZERO; COLUMNS];
        for (row, &q) in state.chunks_exact(width).zip(q) {
            let row = &row[block * COLUMNS..(block + 1) * COLUMNS];
            for (sum, &x) in sums.iter_mut().zip(row) {
                *sum += q * x;
            }
        }
        *out = sums;
    }
    if !rest.is_empty() {
        rest.fill(R::ZERO);
        for (row, &q) in state.chunks_exact(width).zip(q) {
            add_scaled(rest, q, &row[width - rest.len()..]);
        }
    }
}

/// The entry of λ that weighs `states[index]`, oldest first: its rank, or its level under Fenwick.
///
/// `position` is the number of tokens that the `count` states hold.
pub fn weight_index(schedule: Schedule, position: u64, count: usize, index: usize) -> usize {
    match schedule {
        Schedule::Fenwick => schedule::level(position, count, index),
        _ => count - 1 - index,
    }
}

/// `o = Σ_i λ_i qᵀ S_i` over the live states, oldest first; `weight(i)` is the read weight of state i.
pub fn readout<R: Real>(q: &[R], states: &[State<R>], weight: impl Fn(usize) -> R, o: &mut [R]) {
    o.fill(R::ZERO);
    let mut y = vec![R::ZERO; o.len()];
    for (index, state) in states.iter().enumerate() {
        read(q, &state.matrix, &mut y);
        add_scaled(o, weight(index), &y);
    }
}
