//! Stage 1: the scores that a chunk's tokens would have against every state that could be open.
//!
//! A state that opens at token p of the chunk holds the tokens from p on, so all candidates p are
//! measured at once, from masked Gram sums, before it is known which of them come true.
//!
//! The delta rule subtracts inside ‖S‖²: where a key repeats, all but (1 − β‖k‖²)² of a state may be
//! erased at once, and the rest has a relative error of the precision over (1 − β‖k‖²)². In `f32`
//! with keys that repeat exactly, scores are off by 1e-4 at β = 0.9, by 1e-2 at β = 0.99, and
//! meaningless from β = 0.999 on; the recurrence, which measures matrices, is not affected.

use crate::backbone::form::Step;
use crate::backbone::{Form, Token};
use crate::decisions::Decision;
use crate::dla::boundary;
use crate::dla::score::{Products, Score};
use crate::real::Real;
use crate::vector::{add_scaled, dot, row_product, square_norm};

/// What the keys read of one open state, token by token, before each transition: x_t = k_tᵀS.
#[derive(Clone, Debug, PartialEq)]
pub struct Sums<R> {
    /// x_t · v_t, `[len]`.
    pub cross: Vec<R>,
    /// ‖x_t‖², `[len]`.
    pub square: Vec<R>,
}

impl<R: Real> Sums<R> {
    fn new(len: usize) -> Self {
        Self {
            cross: vec![R::ZERO; len],
            square: vec![R::ZERO; len],
        }
    }
}

/// When a token opens a state.
#[derive(Clone, Copy, Debug)]
pub struct Rule<'a, R> {
    /// The score.
    pub score: Score<R>,
    /// The head's threshold.
    pub tau: R,
    /// The chunk's decisions, where they are given; they win over τ.
    pub forced: Option<&'a [Decision]>,
    /// False at capacity 1, where a boundary leaves the open state open.
    pub restarts: bool,
}

impl<R: Real> Rule<'_, R> {
    /// True where token `t`, of score `score`, opens a state.
    pub fn opens(&self, t: usize, score: R) -> bool {
        match self.forced {
            Some(forced) => forced[t].opens,
            None => boundary::opens(score, self.tau),
        }
    }
}

/// The scores against one open state until the next state opens.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate<R> {
    /// The first token that is scored against the state.
    pub from: usize,
    /// Scores of the tokens from `from` to `next`, `next` included where it lies in the chunk.
    pub scores: Vec<R>,
    /// The token that opens the next state; the chunk's length where none does.
    pub next: usize,
}

/// The masked Gram sums of every candidate start p, `[len]`: `x_t = Σ_{p≤j<t} probe_tj v_j`.
pub fn sums<R: Real>(form: &Form<R>, tokens: &[Token<'_, R>]) -> Vec<Sums<R>> {
    let len = form.len;
    let mut sums = vec![Sums::new(len); len];
    for (t, token) in tokens.iter().enumerate() {
        let mut x = vec![R::ZERO; token.v.len()];
        for p in (0..t).rev() {
            add_scaled(&mut x, form.probe[t * len + p], tokens[p].v);
            sums[p].cross[t] = dot(&x, token.v);
            sums[p].square[t] = square_norm(&x);
        }
    }
    sums
}

/// What every candidate start p would lead to, `[len]`.
pub fn candidates<R: Real>(
    rule: &Rule<'_, R>,
    form: &Form<R>,
    sums: &[Sums<R>],
) -> Vec<Candidate<R>> {
    let candidate = |p: usize| scan(rule, &form.steps, &sums[p], p + 1, form.steps[p].ss);
    (0..form.len).map(candidate).collect()
}

/// What the state that was open when the chunk began, `open` `[key_dim, value_dim]`, leads to.
pub fn entered<R: Real>(
    rule: &Rule<'_, R>,
    form: &Form<R>,
    tokens: &[Token<'_, R>],
    open: &[R],
) -> Candidate<R> {
    let mut sums = Sums::new(form.len);
    for (t, token) in tokens.iter().enumerate() {
        let x = probe(form, tokens, &[open], t, 0..1 + t);
        sums.cross[t] = dot(&x, token.v);
        sums.square[t] = square_norm(&x);
    }
    scan(rule, &form.steps, &sums, 0, square_norm(open))
}

/// What the key of token `t` reads, before its transition, of the sources `span`, `[value_dim]`.
///
/// Sources are `entered` and then the tokens, so `span` ends at `entered.len() + t` or before.
pub fn probe<R: Real>(
    form: &Form<R>,
    tokens: &[Token<'_, R>],
    entered: &[&[R]],
    t: usize,
    span: std::ops::Range<usize>,
) -> Vec<R> {
    let (dk, dv) = (tokens[t].k.len(), tokens[t].v.len());
    let key = &form.probe_query[t * dk..(t + 1) * dk];
    let mut x = vec![R::ZERO; dv];
    let mut y = vec![R::ZERO; dv];
    for source in span {
        match source.checked_sub(entered.len()) {
            Some(j) => add_scaled(&mut x, form.probe[t * form.len + j], tokens[j].v),
            None => {
                row_product(key, entered[source], &mut y);
                add_scaled(&mut x, R::ONE, &y);
            }
        }
    }
    x
}

/// Carries ‖S‖² from token `from` on, scoring each token, until one opens a state.
fn scan<R: Real>(
    rule: &Rule<'_, R>,
    steps: &[Step<R>],
    sums: &Sums<R>,
    from: usize,
    mut state: R,
) -> Candidate<R> {
    let mut scores = Vec::new();
    for t in from..steps.len() {
        let step = steps[t];
        let products = Products {
            ss: step.ss,
            state: step.decay * (state + step.erase * sums.square[t]),
            cross: step.cross * sums.cross[t],
        };
        let score = rule.score.of_products(products);
        scores.push(score);
        if rule.restarts && rule.opens(t, score) {
            let next = t;
            return Candidate { from, scores, next };
        }
        state = products.joined();
    }
    let next = steps.len();
    Candidate { from, scores, next }
}
