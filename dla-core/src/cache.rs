//! The cache of states: what a sequence carries from one call to the next, in one layout for CPU, GPU and files.

use crate::check::{check_all, check_len};
use crate::config::Schedule;
use crate::dims::Dims;
use crate::error::{Error, Result};
use crate::real::Real;

/// The states of every sequence and head, in time order, oldest first.
///
/// Under [`Schedule::Fenwick`] the index is the level instead of the age,
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

    /// The token counts of sequence and head `i`, `i` = b·H + h, `[capacity]`.
    pub fn counts(&self, dims: &Dims, i: usize) -> &[u32] {
        &self.n[i * dims.capacity..(i + 1) * dims.capacity]
    }

    /// The tokens that sequence and head `i`, `i` = b·H + h, has taken in.
    pub fn position(&self, dims: &Dims, i: usize) -> u64 {
        self.counts(dims, i).iter().map(|&n| u64::from(n)).sum()
    }

    /// Refuses a cache that no run of `schedule` could have left: arrays of the wrong length, a gap
    /// between live entries, Ī that is not finite, levels that are not those of the token count.
    ///
    /// The matrices may hold any value; those of entries that are not live are not read.
    pub fn check(&self, dims: &Dims, schedule: Schedule) -> Result<()> {
        let entries = dims.sequences() * dims.capacity;
        check_len("h0", self.states.len(), dims.states_len())?;
        check_len("n0", self.n.len(), entries)?;
        check_len("info0", self.info.len(), entries)?;
        check_all("info0", &self.info, "finite", |info| info.is_finite())?;
        for i in 0..dims.sequences() {
            let n = self.counts(dims, i);
            if schedule == Schedule::Fenwick {
                check_levels(n, self.position(dims, i))?;
            } else if n.windows(2).any(|pair| pair[0] == 0 && pair[1] > 0) {
                return Err(Error::input(
                    "op",
                    "n0",
                    "live states first",
                    format!("{n:?}"),
                ));
            }
            if schedule == Schedule::Offline && n[0] > 0 {
                let expected = "an empty cache, for the offline schedule sees whole sequences";
                return Err(Error::input("op", "n0", expected, format!("{n:?}")));
            }
        }
        Ok(())
    }
}

/// Level 0 holds the newest token, level 1 + j holds 2^j tokens where bit j of `position − 1` is set.
fn check_levels(n: &[u32], position: u64) -> Result<()> {
    let holds = |level: usize| match (position, level) {
        (0, _) => 0,
        (_, 0) => 1,
        _ => (position - 1) & 1u64.checked_shl(level as u32 - 1).unwrap_or(0),
    };
    let fits = (0..n.len()).all(|level| u64::from(n[level]) == holds(level));
    if fits {
        return Ok(());
    }
    let expected = format!("the levels of {position} tokens");
    Err(Error::input("op", "n0", expected, format!("{n:?}")))
}
