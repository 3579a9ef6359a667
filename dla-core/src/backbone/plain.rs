//! Linear attention: states stay as they are, a token writes k vᵀ.

use super::decay;
use super::form::Form;
use super::token::Token;
use crate::real::Real;
use crate::vector::outer;

/// S stays S.
pub fn transition<R: Real>(_token: &Token<'_, R>, _state: &mut [R]) {}

/// `s = k vᵀ`.
pub fn contribution<R: Real>(token: &Token<'_, R>, s: &mut [R]) {
    outer(s, R::ONE, token.k, token.v);
}

/// The form of a gate that is always open: a plain token has g = 0.
pub fn form<R: Real>(tokens: &[Token<'_, R>]) -> Form<R> {
    decay::form(tokens)
}
