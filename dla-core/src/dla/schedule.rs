//! Schedules (`docs/algorithm.md` §7): decisions from scalars alone, no matrix.
//!
//! `single`, `fixed` and `fenwick` follow from positions, so they are decided before any work; the
//! recurrences then follow them as they would follow replayed decisions.

use std::borrow::Cow;

pub use super::positions::{Occupancy, check_levels, check_tokens, level, levels, positional};
use super::state::State;
use super::{bound, boundary, compact};
use crate::cache::Cache;
use crate::config::{Config, MergeCost, Schedule};
use crate::decisions::{Decision, Decisions};
use crate::dims::Dims;
use crate::error::{Error, Result};
use crate::inputs::Inputs;
use crate::real::Real;

/// The decisions of `single`, `fixed` and `fenwick` for a whole call, and the live states after each step.
///
/// Both in `[batch, tokens, heads]`, zeros (−1 in `merge_at`) beyond a shorter item's length.
/// `lengths` `[batch]` are the items' tokens (all full when absent), `n` `[batch, heads, capacity]`
/// the token counts of the cache that the call starts from.
///
/// # Errors
/// Refuses `dynamic` and `offline`, which need more than positions.
///
/// ```
/// use dla_core::{Backbone, Config, Dims, Schedule, dla::schedule};
/// let dims = Dims { batch: 1, tokens: 5, heads: 1, groups: 1, key_dim: 1, value_dim: 1, capacity: 2 };
/// let config = Config { schedule: Schedule::Fixed { block: 2 }, ..Config::new(Backbone::Plain) };
/// let (decisions, count) = schedule::decide(&dims, &config, None, None)?;
/// assert_eq!(decisions.boundary, [1, 0, 1, 0, 1]);
/// assert_eq!(decisions.merge_at, [-1, -1, -1, -1, 0]);
/// assert_eq!(count, [1, 1, 2, 2, 2]);
/// # Ok::<(), dla_core::Error>(())
/// ```
pub fn decide(
    dims: &Dims,
    config: &Config,
    lengths: Option<&[u32]>,
    n: Option<&[u32]>,
) -> Result<(Decisions, Vec<i32>)> {
    if matches!(config.schedule, Schedule::Dynamic | Schedule::Offline) {
        return Err(Error::input(
            "schedule",
            "schedule",
            "single|fixed|fenwick",
            format!("{:?}", config.schedule),
        ));
    }
    let mut decisions = Decisions::new(dims.token_heads());
    let mut counts = vec![0; dims.token_heads()];
    for i in 0..dims.sequences() {
        let (b, h) = (i / dims.heads, i % dims.heads);
        let mut occupancy = Occupancy::of(dims, n, i);
        for t in 0..lengths.map_or(dims.tokens, |lengths| lengths[b] as usize) {
            let at = dims.token_head(b, t, h);
            let decision = positional(config.schedule, dims.capacity, occupancy);
            occupancy.advance(config.schedule, decision);
            decisions.set(at, decision);
            counts[at] = occupancy.count as i32;
        }
    }
    Ok((decisions, counts))
}

/// The decisions that a call must follow: replayed ones, or those that its schedule fixes beforehand.
///
/// `None` for a dynamic schedule without replay.
pub fn forced<'a, R: Real>(
    dims: &Dims,
    config: &Config,
    inputs: &Inputs<'a, R>,
    cache: Option<&Cache<R>>,
) -> Result<Option<Cow<'a, Decisions>>> {
    if let Some(replay) = inputs.replay {
        return Ok(Some(Cow::Borrowed(replay)));
    }
    match config.schedule {
        Schedule::Dynamic => Ok(None),
        Schedule::Offline => {
            bound::offline(dims, inputs).map(|decisions| Some(Cow::Owned(decisions)))
        }
        _ => {
            let n = cache.map(|cache| &cache.n[..]);
            decide(dims, config, inputs.lengths, n)
                .map(|(decisions, _)| Some(Cow::Owned(decisions)))
        }
    }
}

/// Decides token by token for one head: by the dynamic rule, or by decisions made beforehand.
#[derive(Clone, Copy, Debug)]
pub struct Decider<'a, R> {
    tau: R,
    capacity: usize,
    cost: MergeCost,
    forced: Option<&'a Decisions>,
}

impl<'a, R: Real> Decider<'a, R> {
    /// The rule of a head with threshold `tau`; `forced` decisions win over it.
    pub fn new(config: &Config, capacity: usize, tau: R, forced: Option<&'a Decisions>) -> Self {
        Self {
            tau,
            capacity,
            cost: config.merge,
            forced,
        }
    }

    /// The decision for the token at `at` of a `[batch, tokens, heads]` array, whose score against
    /// the newest of `states` (oldest first) is `score`.
    pub fn decide(&self, at: usize, score: R, states: &[State<R>]) -> Decision {
        if let Some(forced) = self.forced {
            return forced.get(at);
        }
        let opens = states.is_empty() || boundary::opens(score, self.tau);
        let full = states.len() == self.capacity;
        Decision {
            opens,
            merge_at: (opens && full).then(|| compact::cheapest_pair(self.cost, states)),
        }
    }
}
