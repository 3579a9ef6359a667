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
use crate::vector::{add_scaled, dot};

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

/// What the inputs of one token of one head take from a loss.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenGradient<R> {
    /// By the query `[key_dim]`.
    pub q: Vec<R>,
    /// By the key `[key_dim]`.
    pub k: Vec<R>,
    /// By the value `[value_dim]`.
    pub v: Vec<R>,
    /// By the log decay.
    pub g: R,
    /// By the write strength.
    pub beta: R,
}

impl<R: Real> TokenGradient<R> {
    /// Zeros for `token`.
    pub fn new(token: &Token<'_, R>) -> Self {
        Self {
            q: vec![R::ZERO; token.q.len()],
            k: vec![R::ZERO; token.k.len()],
            v: vec![R::ZERO; token.v.len()],
            g: R::ZERO,
            beta: R::ZERO,
        }
    }
}

/// Takes `d_state`, the gradient by a state after the transition of `token`, to that by the state
/// before it, adding the token's share to `gradient`. `states` are the state before and after.
pub fn transition_backward<R: Real>(
    backbone: Backbone,
    token: &Token<'_, R>,
    states: [&[R]; 2],
    d_state: &mut [R],
    gradient: &mut TokenGradient<R>,
) {
    match backbone {
        Backbone::Plain => {}
        Backbone::Decay => decay::transition_backward(token, states, d_state, gradient),
        Backbone::Delta => delta::transition_backward(token, states, d_state, gradient),
    }
}

/// Adds to `gradient` what reaches the token through its contribution `β k vᵀ`, `d_s` the gradient by that.
pub fn contribution_backward<R: Real>(
    token: &Token<'_, R>,
    d_s: &[R],
    gradient: &mut TokenGradient<R>,
) {
    let rows = d_s.chunks_exact(token.v.len());
    for ((&k, d_k), row) in token.k.iter().zip(&mut gradient.k).zip(rows) {
        let along_v = dot(row, token.v);
        *d_k += token.beta * along_v;
        gradient.beta += k * along_v;
        add_scaled(&mut gradient.v, token.beta * k, row);
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
