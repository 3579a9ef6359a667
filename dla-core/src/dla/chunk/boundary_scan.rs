//! Stage 2: follows the candidates that come true, from the open state through the chunk.

use super::score::Candidate;
use crate::real::Real;

/// The scores of a chunk, `[len]`: those against `open` up to its end, then those against each state
/// that opens in turn.
///
/// Without an open state the chunk's first token opens one, with score 0.
///
/// ```
/// use dla_core::dla::chunk::{boundary_scan::follow, score::Candidate};
/// let open = Candidate { from: 0, scores: vec![0.1, 0.9], next: 1 };
/// let candidates = [
///     Candidate { from: 1, scores: vec![0.7, 0.7], next: 3 }, // token 0 does not open a state
///     Candidate { from: 2, scores: vec![0.2], next: 3 },
///     Candidate { from: 3, scores: vec![], next: 3 },
/// ];
/// assert_eq!(follow(Some(&open), &candidates), [0.1, 0.9, 0.2]);
/// ```
pub fn follow<R: Real>(open: Option<&Candidate<R>>, candidates: &[Candidate<R>]) -> Vec<R> {
    let mut scores = vec![R::ZERO; candidates.len()];
    let mut visit = |candidate: &Candidate<R>| {
        let end = candidate.from + candidate.scores.len();
        scores[candidate.from..end].copy_from_slice(&candidate.scores);
        candidate.next
    };
    let mut start = open.map_or(0, &mut visit);
    while start < candidates.len() {
        start = visit(&candidates[start]);
    }
    scores
}
