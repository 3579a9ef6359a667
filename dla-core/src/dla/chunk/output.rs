//! Stages 4 and 5: the outputs, from entered states and in attention form from the chunk's own tokens.

use crate::backbone::{Form, Token};
use crate::real::Real;
use crate::vector::{add_scaled, magnitude, row_product};

/// `o_t = Σ_i λ_{t,i} q̃_tᵀ S_i` over the entered states, oldest first, `[len, value_dim]`.
///
/// `weights` are those of [`SlotMap::weights`](super::SlotMap::weights).
pub fn readout<R: Real>(
    form: &Form<R>,
    entered: &[&[R]],
    weights: &[Vec<R>],
    value_dim: usize,
) -> Vec<R> {
    let mut o = vec![R::ZERO; form.len * value_dim];
    let mut y = vec![R::ZERO; value_dim];
    let key_dim = form.query.len() / form.len;
    let queries = || form.query.chunks_exact(key_dim);
    let sizes: Vec<R> = queries().map(magnitude).collect();
    // A state stays in the processor's nearest cache while all tokens read it.
    for (i, state) in entered.iter().enumerate() {
        let state_size = magnitude(state);
        let rows = o.chunks_exact_mut(value_dim).zip(queries()).zip(&sizes);
        for (((o, query), &size), weights) in rows.zip(weights) {
            if !(size * state_size).is_negligible() {
                row_product(query, state, &mut y);
                add_scaled(o, weights[i], &y);
            }
        }
    }
    o
}

/// `o_t += Σ_{j≤t} λ_{t,j} read_tj v_j`: the chunk's own tokens.
pub fn chunk_output<R: Real>(
    form: &Form<R>,
    tokens: &[Token<'_, R>],
    weights: &[Vec<R>],
    o: &mut [R],
) {
    let value_dim = o.len() / form.len;
    for (t, o) in o.chunks_exact_mut(value_dim).enumerate() {
        let entered = weights[t].len() - (t + 1);
        for j in 0..=t {
            let weight = weights[t][entered + j] * form.read[t * form.len + j];
            add_scaled(o, weight, tokens[j].v);
        }
    }
}
