//! The decision rule (`docs/algorithm.md` §4): does a token open a new state?

use crate::real::Real;

/// True where a token of score `score` opens a state: I ≥ τ. A score that is not finite opens none.
///
/// ```
/// use dla_core::dla::boundary::opens;
/// assert!(opens(0.9, 0.9));
/// assert!(!opens(2.0, f64::INFINITY));
/// assert!(!opens(f64::INFINITY, 0.9));
/// ```
pub fn opens<R: Real>(score: R, tau: R) -> bool {
    score.is_finite() && score >= tau
}

/// What a score adds to Ī: itself, or 0 where it is not finite.
pub fn information<R: Real>(score: R) -> R {
    if score.is_finite() { score } else { R::ZERO }
}
