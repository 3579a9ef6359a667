//! Gradients from the device's layouts to the arrays of a call.

use dla_core::dla::backward::Gradients;
use dla_core::dla::readout::weight_index;
use dla_core::dla::schedule::Occupancy;
use dla_core::{Dims, Inputs, Schedule};

use crate::op::pack::{Piece, time_order};

/// Zeros in the shapes of the inputs.
pub(super) fn zeros(dims: &Dims, inputs: &Inputs<'_, f32>) -> Gradients<f32> {
    Gradients {
        q: vec![0.0; dims.key_len()],
        k: vec![0.0; dims.key_len()],
        v: vec![0.0; dims.value_len()],
        g: inputs.g.map(|g| vec![0.0; g.len()]),
        beta: inputs.beta.map(|beta| vec![0.0; beta.len()]),
        lambda: vec![0.0; dims.lambda_len()],
        tau: vec![0.0; dims.heads],
        states: vec![0.0; dims.states_len()],
    }
}

/// Stores a piece's `[B, T, H, 2 + K]` records by g, β and λ, whose ranks become the schedule's own indices again.
///
/// `n` are the token counts that the piece starts from.
pub(super) fn control(
    piece: &Piece,
    whole: &Dims,
    schedule: Schedule,
    records: &[f32],
    n: &[u32],
    into: &mut Gradients<f32>,
) {
    let dims = piece.dims(whole);
    let k = dims.capacity;
    for i in 0..dims.sequences() {
        let (b, h) = (i / dims.heads, i % dims.heads);
        let mut position = Occupancy::of(&dims, Some(n), i).position;
        for t in 0..dims.tokens {
            let to = whole.token_head(piece.batch.0 + b, piece.tokens.0 + t, h);
            let record = &records[dims.token_head(b, t, h) * (k + 2)..][..k + 2];
            position += 1;
            if let Some(g) = &mut into.g {
                g[to] = record[0];
            }
            if let Some(beta) = &mut into.beta {
                beta[to] = record[1];
            }
            let lambda = &mut into.lambda[to * k..][..k];
            by_index(schedule, position, &record[2..], lambda);
        }
    }
}

/// Gradients by the schedule's own index from those by rank, after `position` tokens.
fn by_index(schedule: Schedule, position: u64, ranks: &[f32], lambda: &mut [f32]) {
    if schedule != Schedule::Fenwick {
        lambda.copy_from_slice(ranks);
        return;
    }
    let count = 1 + (position - 1).count_ones() as usize;
    for (rank, &x) in ranks.iter().enumerate().take(count) {
        lambda[weight_index(schedule, position, count, count - 1 - rank)] = x;
    }
}

/// Stores a piece's gradients by states in time order at the entries of the cache with token counts `n`.
pub(super) fn states(
    piece: &Piece,
    whole: &Dims,
    schedule: Schedule,
    by_time: &[f32],
    n: &[u32],
    into: &mut Gradients<f32>,
) {
    let dims = piece.dims(whole);
    let (k, d) = (dims.capacity, dims.state_len());
    for i in 0..dims.sequences() {
        let live = time_order(schedule, k).filter(|entry| n[i * k + entry] > 0);
        for (index, entry) in live.enumerate() {
            let to = ((piece.batch.0 * dims.heads + i) * k + entry) * d;
            into.states[to..to + d].copy_from_slice(&by_time[(i * k + index) * d..][..d]);
        }
    }
}
