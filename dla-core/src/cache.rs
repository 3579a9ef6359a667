//! The cache of states: what a sequence carries from one call to the next, in one layout for CPU, GPU and files.

use crate::dims::Dims;
use crate::real::Real;

/// The states of every sequence and head, in time order, oldest first.
///
/// Under [`Schedule::Fenwick`](crate::Schedule::Fenwick) the index is the level instead of the age,
/// so live entries may leave gaps. An entry is live when its token count `n` is above 0; entries
/// that are not live are all zeros.
#[derive(Clone, Debug, PartialEq)]
pub struct Cache<R> {
    /// `[batch, heads, capacity, key_dim, value_dim]`.
    pub states: Vec<R>,
    /// Tokens of each state, `[batch, heads, capacity]`.
    pub n: Vec<u32>,
    /// Information of each state, Ī, the sum of its tokens' scores, `[batch, heads, capacity]`.
    pub info: Vec<R>,
}

impl<R: Real> Cache<R> {
    /// The cache of a sequence that has not begun.
    pub fn new(dims: &Dims) -> Self {
        let entries = dims.sequences() * dims.capacity;
        Self {
            states: vec![R::ZERO; dims.states_len()],
            n: vec![0; entries],
            info: vec![R::ZERO; entries],
        }
    }

    /// The same cache at another precision.
    pub fn cast<S: Real>(&self) -> Cache<S> {
        Cache {
            states: self
                .states
                .iter()
                .map(|x| S::from_f64(x.to_f64()))
                .collect(),
            n: self.n.clone(),
            info: self.info.iter().map(|x| S::from_f64(x.to_f64())).collect(),
        }
    }
}
