//! Decisions judged: where two runs part, and whether each was right.
//!
//! Rounding may turn a decision either way where the score lies at τ or two costs are equal. Inside
//! that margin either decision is right (`docs/algorithm.md` §9), so a run is judged against the
//! reference *forced to the same decisions*: every decision outside the margin must be the rule's,
//! and every number is compared with the forced reference's.
//!
//! [`ledger`] follows a run's states from its scores and decisions.

pub mod ledger;

use std::fmt;

use crate::cache::Cache;
use crate::config::{Config, MergeCost, Schedule};
use crate::decisions::{Decision, Decisions};
use crate::dims::Dims;
use crate::dla::compact::pair_cost;
use crate::dla::gate::Gate;
use crate::dla::recurrent;
use crate::dla::state::State;
use crate::dla::{boundary, schedule};
use crate::error::Result;
use crate::inputs::{Inputs, Output};
use crate::real::Real;
use crate::vector::square_norm;

/// A token of one head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Sequence of the batch.
    pub sequence: usize,
    /// Position in the call.
    pub token: usize,
    /// Head.
    pub head: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            sequence,
            token,
            head,
        } = self;
        write!(f, "sequence {sequence}, token {token}, head {head}")
    }
}

/// How near a decision may lie to a tie before rounding excuses it: 1e-4, and 2e-3 for values below 0.02.
///
/// ```
/// use dla_core::trace::margin;
/// assert_eq!([0.01, 0.02].map(margin), [2e-3, 1e-4]);
/// ```
pub fn margin(value: f64) -> f64 {
    if value < 0.02 { 2e-3 } else { 1e-4 }
}

/// The first token, by time, at which two runs decided differently; `lengths` as in [`Inputs`].
pub fn first_difference(
    dims: &Dims,
    lengths: Option<&[u32]>,
    a: &Decisions,
    b: &Decisions,
) -> Option<Place> {
    let live =
        |sequence: usize, token| lengths.is_none_or(|lengths| token < lengths[sequence] as usize);
    for token in 0..dims.tokens {
        for i in 0..dims.sequences() {
            let (sequence, head) = (i / dims.heads, i % dims.heads);
            let at = dims.token_head(sequence, token, head);
            if live(sequence, token) && a.get(at) != b.get(at) {
                return Some(Place {
                    sequence,
                    token,
                    head,
                });
            }
        }
    }
    None
}

/// A decision that differs from the rule's by more than the margin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fault {
    /// Where.
    pub place: Place,
    /// What was decided.
    pub decided: Decision,
    /// How far from a tie: |I − τ| for a boundary, the excess over the least cost for a merge, +∞
    /// for a schedule that does not measure.
    pub distance: f64,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Decision { opens, merge_at } = self.decided;
        let what = match (opens, merge_at) {
            (true, Some(at)) => format!("boundary, merging at {at}"),
            (true, None) => "boundary".to_owned(),
            (false, _) => "no boundary".to_owned(),
        };
        write!(
            f,
            "{}: {what}, {} away from a tie",
            self.place, self.distance
        )
    }
}

/// A run's decisions, judged.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement<R> {
    /// The reference's output under these decisions: what the run's numbers are compared with.
    pub output: Output<R>,
    /// Decisions that the rule was asked for: a boundary or none for each token, and each merge.
    pub decisions: u64,
    /// How many of them lay inside the margin.
    pub near_ties: u64,
    /// The first wrong decision of the first head that has one.
    pub fault: Option<Fault>,
}

/// Judges `decisions` that a run made on `inputs`; `inputs.replay` is not read.
///
/// # Errors
/// Whatever [`Inputs::check`] refuses, decisions that no run could have made among it.
pub fn judge<R: Real>(
    dims: &Dims,
    config: &Config,
    inputs: &Inputs<'_, R>,
    cache: Option<&Cache<R>>,
    decisions: &Decisions,
) -> Result<Judgement<R>> {
    let inputs = Inputs {
        replay: Some(decisions),
        ..*inputs
    };
    if config.schedule != Schedule::Dynamic {
        return judge_planned(dims, config, &inputs, cache, decisions);
    }
    let tau = |h: usize| inputs.tau[h].to_f64();
    let judges: Vec<_> = (0..dims.sequences())
        .map(|i| Judge::new(*dims, config.merge, i, tau(i % dims.heads)))
        .collect();
    let (output, judges) =
        recurrent::observe(dims, config, &inputs, cache, &Gate::default(), &judges)?;
    Ok(Judgement {
        output,
        decisions: judges.iter().map(|judge| judge.decisions).sum(),
        near_ties: judges.iter().map(|judge| judge.near_ties).sum(),
        fault: judges.iter().find_map(|judge| judge.fault),
    })
}

/// A schedule that knows its decisions beforehand has no near ties.
fn judge_planned<R: Real>(
    dims: &Dims,
    config: &Config,
    inputs: &Inputs<'_, R>,
    cache: Option<&Cache<R>>,
    decisions: &Decisions,
) -> Result<Judgement<R>> {
    let output = recurrent::forward(dims, config, inputs, cache)?;
    let own = Inputs {
        replay: None,
        ..*inputs
    };
    let own = schedule::forced(dims, config, &own, cache)?.unwrap_or_default();
    let place = first_difference(dims, inputs.lengths, decisions, &own);
    let fault = place.map(|place| Fault {
        place,
        decided: decisions.get(dims.token_head(place.sequence, place.token, place.head)),
        distance: f64::INFINITY,
    });
    let tokens = (0..dims.batch).map(|b| inputs.length(dims, b) as u64);
    Ok(Judgement {
        output,
        decisions: tokens.sum::<u64>() * dims.heads as u64,
        near_ties: 0,
        fault,
    })
}

/// Judges the decisions of one head of one sequence, token by token.
#[derive(Clone, Debug)]
struct Judge {
    dims: Dims,
    cost: MergeCost,
    sequence_head: usize,
    tau: f64,
    decisions: u64,
    near_ties: u64,
    fault: Option<Fault>,
}

impl Judge {
    fn new(dims: Dims, cost: MergeCost, sequence_head: usize, tau: f64) -> Self {
        Self {
            dims,
            cost,
            sequence_head,
            tau,
            decisions: 0,
            near_ties: 0,
            fault: None,
        }
    }

    /// Notes a decision that lies `distance` from a tie and differs from the rule's if `wrong`.
    fn note(&mut self, token: usize, decided: Decision, wrong: bool, distance: f64, margin: f64) {
        self.decisions += 1;
        let near = distance <= margin;
        self.near_ties += u64::from(near);
        if wrong && !near && self.fault.is_none() {
            self.fault = Some(Fault {
                place: Place {
                    sequence: self.sequence_head / self.dims.heads,
                    token,
                    head: self.sequence_head % self.dims.heads,
                },
                decided,
                distance,
            });
        }
    }

    fn boundary<R: Real>(&mut self, token: usize, score: R, decided: Decision) {
        let value = score.to_f64();
        let wrong = boundary::opens(value, self.tau) != decided.opens;
        let distance = (value - self.tau).abs();
        self.note(token, decided, wrong, distance, margin(value));
    }

    fn merge<R: Real>(&mut self, token: usize, states: &[State<R>], decided: Decision, at: usize) {
        let costs: Vec<f64> = states
            .windows(2)
            .map(|pair| pair_cost(self.cost, pair).to_f64())
            .collect();
        let own = crate::dla::compact::argmin(costs.iter().copied());
        if self.cost == MergeCost::Oldest || costs.len() < 2 {
            self.note(token, decided, at != own, f64::INFINITY, 0.0);
            return;
        }
        let others = costs.iter().enumerate().filter(|&(i, _)| i != own);
        let runner_up = others.min_by(|a, b| a.1.total_cmp(b.1));
        let wrong = at != own;
        let rival = if wrong {
            at
        } else {
            runner_up.map_or(own, |(i, _)| i)
        };
        let unit = self.unit(&states[own..own + 2]) + self.unit(&states[rival..rival + 2]);
        let margin = margin(costs[own] / unit) * unit;
        self.note(token, decided, wrong, costs[rival] - costs[own], margin);
    }

    /// What a pair's cost is measured in: information for `density`, the squared size of the states for `ward`.
    fn unit<R: Real>(&self, pair: &[State<R>]) -> f64 {
        if self.cost == MergeCost::Density {
            return 0.5;
        }
        let size = |state: &State<R>| square_norm(&state.matrix).to_f64() / f64::from(state.n);
        pair.iter().map(size).sum()
    }
}

impl<R: Real> recurrent::Observer<R> for Judge {
    fn see(&mut self, token: usize, score: R, states: &[State<R>], decided: Decision) {
        if !states.is_empty() {
            self.boundary(token, score, decided);
        }
        if let Some(at) = decided.merge_at {
            self.merge(token, states, decided, at);
        }
    }
}
