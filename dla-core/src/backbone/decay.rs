//! A scalar gate, as in Mamba-2: every state decays by e^g, a token writes k vᵀ.

use super::{Token, outer};
use crate::real::Real;

/// `S ← e^g S`.
pub fn transition<R: Real>(token: &Token<'_, R>, state: &mut [R]) {
    let decay = token.g.exp();
    for x in state {
        *x *= decay;
    }
}

/// `s = k vᵀ`.
pub fn contribution<R: Real>(token: &Token<'_, R>, s: &mut [R]) {
    outer(token.k, token.v, R::ONE, s);
}
