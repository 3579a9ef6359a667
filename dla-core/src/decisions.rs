//! The decisions of a schedule: recorded, compared, replayed.

use std::ops::Range;

use crate::config::{Config, Schedule};
use crate::dims::Dims;
use crate::dla::schedule::{self, Occupancy};
use crate::error::{Error, Result};
use crate::inputs::check_len;

/// What was decided at one token of one head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Decision {
    /// The token opened a state.
    pub opens: bool,
    /// The time-order index of the older of the two states merged before that, if any.
    ///
    /// At capacity 1 it is 0 where a state would have opened: the token joins the only state.
    /// Under Fenwick it is the oldest of the states that collapse into one.
    pub merge_at: Option<usize>,
}

/// Where states opened and which pairs merged; enough to force another run to the same slot map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decisions {
    /// 1 where the token opened a state, `[batch, tokens, heads]`.
    pub boundary: Vec<u8>,
    /// The time-order index of the older of the two states merged at that step, −1 for none, `[batch, tokens, heads]`.
    pub merge_at: Vec<i32>,
}

impl Decisions {
    /// `entries` tokens without a boundary or a merge.
    pub fn new(entries: usize) -> Self {
        Self {
            boundary: vec![0; entries],
            merge_at: vec![-1; entries],
        }
    }

    /// The decision at `at` of the `[batch, tokens, heads]` arrays.
    pub fn get(&self, at: usize) -> Decision {
        Decision {
            opens: self.boundary[at] != 0,
            merge_at: usize::try_from(self.merge_at[at]).ok(),
        }
    }

    /// Adds one decision.
    pub fn push(&mut self, decision: Decision) {
        self.boundary.push(0);
        self.merge_at.push(-1);
        self.set(self.boundary.len() - 1, decision);
    }

    /// Adds the decisions on the tokens that follow, of a single sequence.
    pub fn append(&mut self, more: &Self) {
        self.boundary.extend_from_slice(&more.boundary);
        self.merge_at.extend_from_slice(&more.merge_at);
    }

    /// The decisions on the tokens `tokens` of a single sequence of `heads` heads.
    pub fn part(&self, heads: usize, tokens: Range<usize>) -> Self {
        let entries = tokens.start * heads..tokens.end * heads;
        Self {
            boundary: self.boundary[entries.clone()].to_vec(),
            merge_at: self.merge_at[entries].to_vec(),
        }
    }

    /// Stores the decision at `at` of the `[batch, tokens, heads]` arrays.
    pub fn set(&mut self, at: usize, decision: Decision) {
        self.boundary[at] = u8::from(decision.opens);
        self.merge_at[at] = decision.merge_at.map_or(-1, |index| index as i32);
    }
}

impl Decisions {
    /// Refuses decisions that no run from a cache with token counts `n` could have made.
    ///
    /// The first token of an empty cache opens a state; a merge happens at a boundary that finds the
    /// cache full, and nowhere else, and names an adjacent pair; under Fenwick they must be the
    /// levels' own. Entries beyond a shorter item's length are not read.
    pub fn check(
        &self,
        dims: &Dims,
        config: &Config,
        lengths: Option<&[u32]>,
        n: Option<&[u32]>,
    ) -> Result<()> {
        check_len("boundary", self.boundary.len(), dims.token_heads())?;
        check_len("merge_at", self.merge_at.len(), dims.token_heads())?;
        for i in 0..dims.sequences() {
            let (b, h) = (i / dims.heads, i % dims.heads);
            let mut occupancy = Occupancy::of(dims, n, i);
            for t in 0..lengths.map_or(dims.tokens, |lengths| lengths[b] as usize) {
                let at = dims.token_head(b, t, h);
                if config.schedule == Schedule::Fenwick {
                    let own = schedule::positional(config.schedule, dims.capacity, occupancy);
                    self.check_level(at, own)?;
                } else {
                    self.check_step(at, occupancy.count, dims.capacity)?;
                }
                occupancy.advance(config.schedule, self.get(at));
            }
        }
        Ok(())
    }

    /// One step that finds `count` states.
    fn check_step(&self, at: usize, count: usize, capacity: usize) -> Result<()> {
        let (boundary, merge_at) = (self.boundary[at], self.merge_at[at]);
        let lowest = u8::from(count == 0);
        if boundary < lowest || boundary > 1 {
            let expected = if count == 0 {
                "1, for no state exists"
            } else {
                "0 or 1"
            };
            return Err(refused("boundary", expected, boundary, at));
        }
        if boundary == 1 && count == capacity {
            let pairs = (capacity - 1).max(1) as i32;
            if !(0..pairs).contains(&merge_at) {
                return Err(refused(
                    "merge_at",
                    format!("0 to {}", pairs - 1),
                    merge_at,
                    at,
                ));
            }
        } else if merge_at != -1 {
            return Err(refused("merge_at", "−1, for nothing merges", merge_at, at));
        }
        Ok(())
    }

    fn check_level(&self, at: usize, own: Decision) -> Result<()> {
        let merge_at = own.merge_at.map_or(-1, |index| index as i32);
        if self.boundary[at] != 1 {
            return Err(refused(
                "boundary",
                "1 under fenwick",
                self.boundary[at],
                at,
            ));
        }
        if self.merge_at[at] != merge_at {
            return Err(refused(
                "merge_at",
                format!("{merge_at} under fenwick"),
                self.merge_at[at],
                at,
            ));
        }
        Ok(())
    }
}

fn refused(
    argument: &'static str,
    expected: impl ToString,
    got: impl std::fmt::Display,
    at: usize,
) -> Error {
    Error::input("op", argument, expected, format!("{got} at index {at}"))
}

/// What a run measured and decided, `[batch, tokens, heads]` each; zeros (and −1 in `merge_at`) beyond a shorter item's length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// The information score I_t; 0 where the schedule measures none.
    pub score: Vec<f32>,
    /// The decisions.
    pub decisions: Decisions,
    /// Live states after the step.
    pub count: Vec<i32>,
    /// Scores that were not finite: no boundary, nothing added to Ī.
    pub non_finite: u64,
}

impl Trace {
    /// The trace of a call before any token: zeros, and −1 in `merge_at`.
    pub fn new(dims: &Dims) -> Self {
        let entries = dims.token_heads();
        Self {
            score: vec![0.0; entries],
            decisions: Decisions::new(entries),
            count: vec![0; entries],
            non_finite: 0,
        }
    }

    /// Adds what was measured and decided at one more token of one more head of a single sequence, and the live
    /// states after it.
    pub fn push(&mut self, score: f32, decision: Decision, count: usize) {
        self.score.push(score);
        self.non_finite += u64::from(!score.is_finite());
        self.decisions.push(decision);
        self.count.push(count as i32);
    }
}
