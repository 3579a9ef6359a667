//! Stage 1: the scores that a chunk's tokens would have against every state that could be open.
//!
//! A state that opens at token p of the chunk holds the tokens from p on, so all candidates p are
//! measured at once, from masked Gram sums, before it is known which of them come true.
//!
//! ‖S‖² is carried as a scalar, which subtracts where a state is erased or cancelled. A candidate whose
//! ‖S‖² has cancelled ([`Erased::cancels`]) stops there as `cancelled`, and [`boundary_scan`](super::boundary_scan)
//! measures that state from its matrix instead ([`measured`]).

use crate::backbone::form::Step;
use crate::backbone::{self, Form, Token};
use crate::config::Backbone;
use crate::decisions::Decision;
use crate::dla::boundary;
use crate::dla::score::{Erased, Products, Score};
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
    /// The token that opens the next state; the chunk's length where none does. If `cancelled`, the first
    /// token without a score.
    pub next: usize,
    /// ‖S‖² cancelled at token `next`: scores from there on need the matrix.
    pub cancelled: bool,
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

/// A candidate from its matrix, and where that ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured<R> {
    /// The candidate, not cancelled.
    pub candidate: Candidate<R>,
    /// The state after the last of its tokens, `[key_dim, value_dim]`.
    pub state: Vec<R>,
}

/// The scores against an open state from its matrix, token by token as the recurrence measures them, until one opens
/// a state: `start` is the chunk's token that opened it, `None` for the state the chunk began with, `open`.
pub fn measured<R: Real>(
    rule: &Rule<'_, R>,
    backbone: Backbone,
    tokens: &[Token<'_, R>],
    open: &[R],
    start: Option<usize>,
) -> Measured<R> {
    let mut state = open.to_vec();
    let mut s = vec![R::ZERO; state.len()];
    if let Some(start) = start {
        backbone::contribution(backbone, &tokens[start], &mut state);
    }
    let from = start.map_or(0, |start| start + 1);
    let mut scores = Vec::new();
    let mut next = tokens.len();
    for (t, token) in tokens.iter().enumerate().skip(from) {
        let before = state.clone();
        backbone::transition(backbone, token, &mut state);
        backbone::contribution(backbone, token, &mut s);
        let score = rule.score.of_matrices(&s, &state);
        scores.push(score);
        if rule.restarts && rule.opens(t, score) {
            (next, state) = (t, before);
            break;
        }
        add_scaled(&mut state, R::ONE, &s);
    }
    let candidate = Candidate {
        from,
        scores,
        next,
        cancelled: false,
    };
    Measured { candidate, state }
}

/// Carries ‖S‖² from token `from` on, scoring each token, until one opens a state or ‖S‖² cancels.
fn scan<R: Real>(
    rule: &Rule<'_, R>,
    steps: &[Step<R>],
    sums: &Sums<R>,
    from: usize,
    mut state: R,
) -> Candidate<R> {
    let mut erased = Erased::default();
    let mut candidate = Candidate {
        from,
        scores: Vec::new(),
        next: steps.len(),
        cancelled: false,
    };
    for t in from..steps.len() {
        let step = steps[t];
        let products = Products {
            ss: step.ss,
            state: step.decay * (state + step.erase * sums.square[t]),
            cross: step.cross * sums.cross[t],
        };
        erased.transition(step.decay, state, products.state);
        if erased.cancels(products.state) {
            (candidate.next, candidate.cancelled) = (t, true);
            break;
        }
        let score = rule.score.of_products(products);
        candidate.scores.push(score);
        if rule.restarts && rule.opens(t, score) {
            candidate.next = t;
            break;
        }
        state = products.joined();
        erased.join(products.cross);
    }
    candidate
}
