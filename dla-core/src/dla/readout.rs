//! States and a query give the output (`docs/algorithm.md` §6).

use super::positions::level;
use super::state::State;
use crate::config::Schedule;
use crate::real::Real;
use crate::vector::{add_scaled, row_product};

/// The entry of λ that weighs `states[index]`, oldest first: its rank, or its level under Fenwick.
///
/// `position` is the number of tokens that the `count` states hold.
pub fn weight_index(schedule: Schedule, position: u64, count: usize, index: usize) -> usize {
    match schedule {
        Schedule::Fenwick => level(position, count, index),
        _ => count - 1 - index,
    }
}

/// `o = Σ_i λ_i qᵀ S_i` over the live states, oldest first; `weight(i)` is the read weight of state i.
pub fn readout<R: Real>(q: &[R], states: &[State<R>], weight: impl Fn(usize) -> R, o: &mut [R]) {
    o.fill(R::ZERO);
    let mut y = vec![R::ZERO; o.len()];
    for (index, state) in states.iter().enumerate() {
        row_product(q, &state.matrix, &mut y);
        add_scaled(o, weight(index), &y);
    }
}
