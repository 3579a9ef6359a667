//! Backbones: what every state goes through at a token, and what the token writes (`docs/algorithm.md` §2).
//!
//! A backbone is one file with three functions: `transition` and `contribution` for a token, `form`
//! for a chunk of tokens; this module picks the file. A state is a row-major `[key_dim, value_dim]` slice.

pub mod decay;
pub mod delta;
pub mod form;
pub mod plain;

pub use form::Form;

use crate::config::Backbone;
use crate::real::Real;

/// One token of one head.
#[derive(Clone, Copy, Debug)]
pub struct Token<'a, R> {
    /// Query `[key_dim]`.
    pub q: &'a [R],
    /// Key `[key_dim]`.
    pub k: &'a [R],
    /// Value `[value_dim]`.
    pub v: &'a [R],
    /// Log decay, at most 0; 0 where the call has none.
    pub g: R,
    /// Write strength; 1 where the call has none.
    pub beta: R,
}

/// Takes `state` `[key_dim, value_dim]` through the transition of `token`.
pub fn transition<R: Real>(backbone: Backbone, token: &Token<'_, R>, state: &mut [R]) {
    match backbone {
        Backbone::Plain => plain::transition(token, state),
        Backbone::Decay => decay::transition(token, state),
        Backbone::Delta => delta::transition(token, state),
    }
}

/// Writes the contribution s of `token` into `s` `[key_dim, value_dim]`.
pub fn contribution<R: Real>(backbone: Backbone, token: &Token<'_, R>, s: &mut [R]) {
    match backbone {
        Backbone::Plain => plain::contribution(token, s),
        Backbone::Decay => decay::contribution(token, s),
        Backbone::Delta => delta::contribution(token, s),
    }
}

/// The attention form of a chunk of at least one token.
pub fn form<R: Real>(backbone: Backbone, tokens: &[Token<'_, R>]) -> Form<R> {
    match backbone {
        Backbone::Plain => plain::form(tokens),
        Backbone::Decay => decay::form(tokens),
        Backbone::Delta => delta::form(tokens),
    }
}

/// `out = scale · k vᵀ`.
fn outer<R: Real>(k: &[R], v: &[R], scale: R, out: &mut [R]) {
    for (row, &k) in out.chunks_exact_mut(v.len()).zip(k) {
        for (x, &v) in row.iter_mut().zip(v) {
            *x = scale * k * v;
        }
    }
}
