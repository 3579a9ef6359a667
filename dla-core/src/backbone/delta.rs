//! The gated delta rule: a token first erases what its key reads, then writes β k vᵀ.

use super::{Token, outer};
use crate::dla::readout::read;
use crate::real::Real;

/// `S ← e^g (S − β k (kᵀS))`.
pub fn transition<R: Real>(token: &Token<'_, R>, state: &mut [R]) {
    let decay = token.g.exp();
    let mut w = vec![R::ZERO; token.v.len()];
    read(token.k, state, &mut w);
    for (row, &k) in state.chunks_exact_mut(w.len()).zip(token.k) {
        for (x, &w) in row.iter_mut().zip(&w) {
            *x = decay * (*x - token.beta * k * w);
        }
    }
}

/// `s = β k vᵀ`.
pub fn contribution<R: Real>(token: &Token<'_, R>, s: &mut [R]) {
    outer(token.k, token.v, token.beta, s);
}
