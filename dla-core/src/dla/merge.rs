//! Joining states (`docs/algorithm.md` §5): S, n and Ī add, time order stays.

use super::state::State;
use crate::real::Real;

/// Merges `states[at]` and the next younger one; `states` is oldest first.
///
/// A lone state (capacity 1) has no partner and stays.
pub fn pair<R: Real>(states: &mut Vec<State<R>>, at: usize) {
    if at + 1 < states.len() {
        let younger = states.remove(at + 1);
        states[at].absorb(&younger);
    }
}

/// Merges `states[from]` and everything younger into one.
pub fn suffix<R: Real>(states: &mut Vec<State<R>>, from: usize) {
    while states.len() > from + 1 {
        pair(states, from);
    }
}
