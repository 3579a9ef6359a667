//! Stage 2: follows the candidates that come true, from the open state through the chunk.

use super::score::{Candidate, Measured};
use crate::real::Real;

/// What comes true in a chunk.
#[derive(Clone, Debug, PartialEq)]
pub struct Scan<R> {
    /// Every token's score, `[len]`.
    pub scores: Vec<R>,
    /// The state open at the chunk's end, `[key_dim, value_dim]`, where it had to be measured.
    pub open: Option<Vec<R>>,
}

/// The scores of a chunk: those against `open` up to its end, then those against each state that opens in turn.
///
/// Without an open state the chunk's first token opens one, with score 0. A cancelled candidate is replaced by
/// `measured` of its start, `None` for `open` ([`score::measured`](super::score::measured)).
///
/// ```
/// use dla_core::dla::chunk::{boundary_scan::follow, score::{Candidate, Measured}};
/// let candidate = |from, scores: &[f64], next| Candidate { from, scores: scores.to_vec(), next, cancelled: false };
/// let open = candidate(0, &[0.1, 0.9], 1);
/// let candidates = [
///     candidate(1, &[0.7, 0.7], 3), // token 0 does not open a state
///     Candidate { cancelled: true, ..candidate(2, &[], 2) },
///     candidate(3, &[], 3),
/// ];
/// let measured = |start: Option<usize>| Measured {
///     candidate: candidate(start.unwrap() + 1, &[0.2], 3),
///     state: vec![5.0],
/// };
/// let scan = follow(Some(&open), &candidates, measured);
/// assert_eq!(scan.scores, [0.1, 0.9, 0.2]);
/// assert_eq!(scan.open, Some(vec![5.0]));
/// ```
pub fn follow<R: Real>(
    open: Option<&Candidate<R>>,
    candidates: &[Candidate<R>],
    measured: impl Fn(Option<usize>) -> Measured<R>,
) -> Scan<R> {
    let mut scan = Scan {
        scores: vec![R::ZERO; candidates.len()],
        open: None,
    };
    let mut visit = |candidate: &Candidate<R>, start: Option<usize>| {
        let exact = candidate.cancelled.then(|| measured(start));
        let candidate = exact.as_ref().map_or(candidate, |exact| &exact.candidate);
        let end = candidate.from + candidate.scores.len();
        scan.scores[candidate.from..end].copy_from_slice(&candidate.scores);
        let next = candidate.next;
        scan.open = exact.map(|exact| exact.state);
        next
    };
    let mut start = open.map_or(0, |open| visit(open, None));
    while start < candidates.len() {
        start = visit(&candidates[start], Some(start));
    }
    scan
}
