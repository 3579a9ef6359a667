//! Backbones: what every state goes through at a token, and what the token writes (`docs/algorithm.md` §2).
//!
//! A backbone is one file with three functions: `transition` and `contribution` for a token, `form`
//! for a chunk of tokens; this module picks the file. A state is a row-major `[key_dim, value_dim]` slice.

pub mod decay;
pub mod delta;
pub mod form;
pub mod plain;
mod token;

pub use form::Form;
pub use token::{Token, TokenGradient};

use crate::config::Backbone;
use crate::real::Real;
use crate::vector::{add_scaled, dot};

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
