//! Joining states (`docs/algorithm.md` §5): S, n and Ī add, time order stays.

use super::state::State;
use crate::config::Schedule;
use crate::decisions::Decision;
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

/// Merges as `decision` says, before the write; true where the token then opens a state.
///
/// At capacity 1 a boundary finds no pair: the token joins the only state.
pub fn apply<R: Real>(schedule: Schedule, states: &mut Vec<State<R>>, decision: Decision) -> bool {
    let lone = states.len() == 1 && decision.merge_at.is_some();
    match (decision.merge_at, schedule) {
        (Some(at), Schedule::Fenwick) => suffix(states, at),
        (Some(at), _) => pair(states, at),
        (None, _) => {}
    }
    states.is_empty() || decision.opens && !lone
}
