//! A chunk of tokens in attention form (`docs/algorithm.md` §8): what a backbone gives the chunkwise operator.

use super::token::Token;
use crate::real::Real;
use crate::vector::{dot, square_norm};

/// The scalars that carry ‖S‖², and inner products of states, over one token.
///
/// With x = kᵀS read before the transition, and y = kᵀS' for another state S',
/// `⟨S, S'⟩ ← decay · (⟨S, S'⟩ + erase · x·y)`, and the contribution s has `⟨s, S⟩ = cross · x·v`
/// after the transition and `‖s‖² = ss`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step<R> {
    /// e^{2g}.
    pub decay: R,
    /// −2β + β²‖k‖² for the delta rule, else 0.
    pub erase: R,
    /// β e^g (1 − β‖k‖²) for the delta rule, else e^g.
    pub cross: R,
    /// ‖s‖² = β²‖k‖²‖v‖².
    pub ss: R,
}

/// What a chunk does to a state that it was entered with, from its first to its last token.
#[derive(Clone, Debug, PartialEq)]
pub enum Carry<R> {
    /// The state times a number.
    Scalar(R),
    /// A matrix `[key_dim, key_dim]` times the state.
    Matrix(Vec<R>),
}

/// A chunk of `len` tokens of one head in attention form.
///
/// For a single state S that holds the entered state and all tokens, `q_tᵀS = Σ_{j≤t} read_tj v_j +
/// query_tᵀ S_in` after token t's write. Every state is a partial sum of that: over the tokens and
/// entered states it holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Form<R> {
    /// Tokens, at most the chunk size.
    pub len: usize,
    /// M, what the query of t reads of v_j, j ≤ t, `[len, len]`, 0 above the diagonal.
    pub read: Vec<R>,
    /// q̃, the queries of entered states, `[len, key_dim]`.
    pub query: Vec<R>,
    /// What the key of t reads of v_j, j < t, before token t's transition, `[len, len]`, 0 from the diagonal on.
    pub probe: Vec<R>,
    /// The keys that read entered states before token t's transition, `[len, key_dim]`.
    pub probe_query: Vec<R>,
    /// K̃, the keys with which the values stand in the states at the chunk's end, `[len, key_dim]`.
    pub write: Vec<R>,
    /// What happens to an entered state until the chunk's end.
    pub carry: Carry<R>,
    /// The scalars of each token, `[len]`.
    pub steps: Vec<Step<R>>,
}

impl<R: Real> Step<R> {
    /// The step of a backbone without erasure.
    pub fn decay(token: &Token<'_, R>) -> Self {
        let decay = token.g.exp();
        Self {
            decay: decay * decay,
            erase: R::ZERO,
            cross: decay,
            ss: square_norm(token.k) * square_norm(token.v),
        }
    }

    /// The step of the delta rule.
    pub fn delta(token: &Token<'_, R>) -> Self {
        let (decay, beta, kk) = (token.g.exp(), token.beta, square_norm(token.k));
        Self {
            decay: decay * decay,
            erase: beta * (beta * kk - R::ONE - R::ONE),
            cross: beta * decay * (R::ONE - beta * kk),
            ss: beta * beta * kk * square_norm(token.v),
        }
    }
}

/// A, the running sum of g, inclusive, `[len]`.
pub(super) fn running_decay<R: Real>(tokens: &[Token<'_, R>]) -> Vec<R> {
    let mut sum = R::ZERO;
    let add = |token: &Token<'_, R>| {
        sum += token.g;
        sum
    };
    tokens.iter().map(add).collect()
}

/// `e^{at − A_s} (x · k_s)` for s in `0..until`: how `x`, read when the running decay is `at`, sees earlier keys.
pub(super) fn seen<R: Real>(
    tokens: &[Token<'_, R>],
    a: &[R],
    x: &[R],
    at: R,
    until: usize,
) -> Vec<R> {
    (0..until)
        .map(|s| (at - a[s]).exp() * dot(x, tokens[s].k))
        .collect()
}

/// A running decay before token t: A_{t−1}, 0 before the first.
pub(super) fn decay_before<R: Real>(a: &[R], t: usize) -> R {
    if t == 0 { R::ZERO } else { a[t - 1] }
}
