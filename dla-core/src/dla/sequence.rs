//! One head of one sequence, seen through the call's arrays.

use crate::backbone::Token;
use crate::dims::Dims;
use crate::inputs::Inputs;
use crate::real::Real;

/// A log decay whose sums stay finite; NaN stays NaN.
fn decay<R: Real>(g: R) -> R {
    if g < R::ERASED { R::ERASED } else { g }
}

/// The tokens of one head of one sequence, borrowed from the inputs of a call.
#[derive(Clone, Copy, Debug)]
pub struct Sequence<'a, R> {
    dims: &'a Dims,
    inputs: &'a Inputs<'a, R>,
    b: usize,
    h: usize,
}

impl<'a, R: Real> Sequence<'a, R> {
    /// Head `h` of sequence `b`. The inputs must have passed [`Inputs::check`].
    pub fn new(dims: &'a Dims, inputs: &'a Inputs<'a, R>, b: usize, h: usize) -> Self {
        Self { dims, inputs, b, h }
    }

    /// Its number of tokens.
    pub fn len(&self) -> usize {
        self.inputs.length(self.dims, self.b)
    }

    /// True when it has no tokens.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where its token `t` lies in a `[batch, tokens, heads]` array.
    pub fn at(&self, t: usize) -> usize {
        self.dims.token_head(self.b, t, self.h)
    }

    /// Its token `t`.
    pub fn token(&self, t: usize) -> Token<'a, R> {
        let (dk, dv) = (self.dims.key_dim, self.dims.value_dim);
        let key = self.dims.key_at(self.b, t, self.h);
        let at = self.at(t);
        Token {
            q: &self.inputs.q[key..key + dk],
            k: &self.inputs.k[key..key + dk],
            v: &self.inputs.v[at * dv..(at + 1) * dv],
            g: self.inputs.g.map_or(R::ZERO, |g| decay(g[at])),
            beta: self.inputs.beta.map_or(R::ONE, |beta| beta[at]),
        }
    }

    /// The read weights of token `t`, `[capacity]`.
    pub fn lambda(&self, t: usize) -> &'a [R] {
        let capacity = self.dims.capacity;
        let at = self.at(t) * capacity;
        &self.inputs.lambda[at..at + capacity]
    }

    /// The head's threshold; +∞ where the schedule reads none.
    pub fn tau(&self) -> R {
        self.inputs.tau.get(self.h).copied().unwrap_or(R::INFINITY)
    }
}
