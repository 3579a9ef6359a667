//! The decisions of a schedule: recorded, compared, replayed.

use std::ops::Range;

use crate::dims::Dims;

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

    /// Adds what was measured and decided on the tokens that follow, of a single sequence.
    pub fn append(&mut self, more: &Self) {
        self.score.extend_from_slice(&more.score);
        self.decisions.append(&more.decisions);
        self.count.extend_from_slice(&more.count);
        self.non_finite += more.non_finite;
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
