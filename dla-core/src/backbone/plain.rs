//! Linear attention: states stay as they are, a token writes k vᵀ.

use super::{Token, outer};
use crate::real::Real;

/// S stays S.
pub fn transition<R: Real>(_token: &Token<'_, R>, _state: &mut [R]) {}

/// `s = k vᵀ`.
pub fn contribution<R: Real>(token: &Token<'_, R>, s: &mut [R]) {
    outer(token.k, token.v, R::ONE, s);
}
