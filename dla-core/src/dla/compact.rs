//! The capacity rule (`docs/algorithm.md` §5): which adjacent pair a full cache merges.

use super::state::State;
use crate::config::MergeCost;
use crate::real::Real;
use crate::vector::{dot, square_norm};

/// The index of the first least cost; a cost that is NaN counts as +∞, and 0 is the answer when all do.
pub fn argmin<R: Real>(costs: impl IntoIterator<Item = R>) -> usize {
    let mut best = (0, R::INFINITY);
    for (index, cost) in costs.into_iter().enumerate() {
        if cost < best.1 {
            best = (index, cost);
        }
    }
    best.0
}

/// `(Ī_i + Ī_j) / (n_i + n_j)`: the pair's information per token.
pub fn density<R: Real>(info: [R; 2], n: [u32; 2]) -> R {
    (info[0] + info[1]) / count::<R>(n[0] + n[1])
}

/// `n_i n_j / (n_i + n_j) · ‖S_i/n_i − S_j/n_j‖²` from `‖S_i‖²`, `‖S_j‖²`, `⟨S_i, S_j⟩`.
pub fn ward<R: Real>(n: [u32; 2], squares: [R; 2], cross: R) -> R {
    let [a, b] = n.map(count::<R>);
    let two = R::ONE + R::ONE;
    a * b / (a + b) * (squares[0] / (a * a) - two * cross / (a * b) + squares[1] / (b * b))
}

/// The index of the older state of the adjacent pair that is cheapest to merge; ties go to the oldest.
pub fn cheapest_pair<R: Real>(cost: MergeCost, states: &[State<R>]) -> usize {
    match cost {
        MergeCost::Oldest => 0,
        _ => argmin(states.windows(2).map(|pair| pair_cost(cost, pair))),
    }
}

/// What merging two adjacent states costs, from their matrices.
pub fn pair_cost<R: Real>(cost: MergeCost, pair: &[State<R>]) -> R {
    let [older, younger] = [&pair[0], &pair[1]];
    let n = [older.n, younger.n];
    match cost {
        MergeCost::Oldest => R::ZERO,
        MergeCost::Density => density([older.info, younger.info], n),
        MergeCost::Ward => ward(
            n,
            [square_norm(&older.matrix), square_norm(&younger.matrix)],
            dot(&older.matrix, &younger.matrix),
        ),
    }
}

fn count<R: Real>(n: u32) -> R {
    R::from_f64(f64::from(n))
}
