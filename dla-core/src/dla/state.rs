//! One memory state, and a sequence's states between calls.

use super::positions::level;
use crate::cache::Cache;
use crate::config::Schedule;
use crate::dims::Dims;
use crate::real::Real;
use crate::vector::add_scaled;

/// A memory state: its matrix, token count and information.
#[derive(Clone, Debug, PartialEq)]
pub struct State<R> {
    /// `[key_dim, value_dim]`.
    pub matrix: Vec<R>,
    /// Tokens it holds.
    pub n: u32,
    /// The sum of their scores, Ī.
    pub info: R,
}

impl<R: Real> State<R> {
    /// The state of a single token with contribution `s`.
    pub fn of_token(s: &[R], info: R) -> Self {
        Self {
            matrix: s.to_vec(),
            n: 1,
            info,
        }
    }

    /// Takes in a token with contribution `s`.
    pub fn join(&mut self, s: &[R], info: R) {
        add_scaled(&mut self.matrix, R::ONE, s);
        self.n += 1;
        self.info += info;
    }

    /// Takes in a whole state; S, n and Ī add.
    pub fn absorb(&mut self, other: &Self) {
        add_scaled(&mut self.matrix, R::ONE, &other.matrix);
        self.n += other.n;
        self.info += other.info;
    }
}

/// The token's contribution `s` opens a state, or joins the newest of `states`, oldest first.
pub fn write<R: Real>(states: &mut Vec<State<R>>, opens: bool, s: &[R], info: R) {
    match states.last_mut() {
        Some(open) if !opens => open.join(s, info),
        _ => states.push(State::of_token(s, info)),
    }
}

/// The live states of sequence `b`, head `h`, oldest first.
pub fn load<R: Real>(
    dims: &Dims,
    schedule: Schedule,
    cache: &Cache<R>,
    b: usize,
    h: usize,
) -> Vec<State<R>> {
    let first = (b * dims.heads + h) * dims.capacity;
    let size = dims.state_len();
    let state = |entry: usize| State {
        matrix: cache.states[entry * size..(entry + 1) * size].to_vec(),
        n: cache.n[entry],
        info: cache.info[entry],
    };
    let live = (first..first + dims.capacity).filter(|&entry| cache.n[entry] > 0);
    match schedule {
        Schedule::Fenwick => live.rev().map(state).collect(),
        _ => live.map(state).collect(),
    }
}

/// Writes the states of sequence `b`, head `h`, oldest first, into `cache`, whose entries there are zeros.
pub fn store<R: Real>(
    dims: &Dims,
    schedule: Schedule,
    states: &[State<R>],
    cache: &mut Cache<R>,
    b: usize,
    h: usize,
) {
    let first = (b * dims.heads + h) * dims.capacity;
    let size = dims.state_len();
    let position = states.iter().map(|state| u64::from(state.n)).sum();
    for (index, state) in states.iter().enumerate() {
        let entry = first
            + match schedule {
                Schedule::Fenwick => level(position, states.len(), index),
                _ => index,
            };
        cache.states[entry * size..(entry + 1) * size].copy_from_slice(&state.matrix);
        cache.n[entry] = state.n;
        cache.info[entry] = state.info;
    }
}
