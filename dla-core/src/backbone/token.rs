//! One token of one head, and what reaches it from a loss.

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
    /// Log decay, at most 0 and at least [`Real::ERASED`]; 0 where the call has none.
    pub g: R,
    /// Write strength; 1 where the call has none.
    pub beta: R,
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
