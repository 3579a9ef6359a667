//! The deviation bound of greedy boundaries against the best ones (`docs/algorithm.md` §10).

use dla_core::dla::bound::{Costs, MAX_TOKENS};
use dla_core::dla::sequence::Sequence;
use dla_core::model::training::{self, LayerCall, watch};
use dla_core::model::{ModelConfig, ModelTensors};
use dla_core::{Decisions, Dims, Error, Result, Schedule};

use super::states_of;

/// The bounds of one head.
#[derive(Clone, Debug, PartialEq)]
pub struct HeadBound {
    /// The layer, counted from 0.
    pub layer: usize,
    /// The head, counted from 0.
    pub head: usize,
    /// States at the end.
    pub states: usize,
    /// The bound of the model's own states.
    pub greedy: f64,
    /// The least bound of as many states as the cache may hold.
    pub offline: f64,
    /// The bound of a single state.
    pub single: f64,
}

impl HeadBound {
    /// How many times the best states' bound the model's own is; none where the best has none.
    pub fn ratio(&self) -> Option<f64> {
        ratio(self.greedy, self.offline)
    }
}

/// The ratio of [`HeadBound::ratio`] for the sums over all heads.
pub fn overall(heads: &[HeadBound]) -> Option<f64> {
    let sum = |of: fn(&HeadBound) -> f64| heads.iter().map(of).sum();
    ratio(sum(|head| head.greedy), sum(|head| head.offline))
}

fn ratio(greedy: f64, offline: f64) -> Option<f64> {
    (offline != 0.0).then(|| greedy / offline)
}

/// Reads `ids` from nothing; compares every head's states at the end with the best ones of hindsight.
///
/// # Errors
/// For no ids or more than [`MAX_TOKENS`], a model without states, and ids
/// that do not fit the model.
pub fn compare(
    config: &ModelConfig,
    tensors: &ModelTensors<Vec<f32>>,
    ids: &[u32],
) -> Result<Vec<HeadBound>> {
    states_of(config, ids)?;
    if ids.len() > MAX_TOKENS {
        let expected = format!("at most {MAX_TOKENS} tokens");
        return Err(Error::input("eval", "--lengths", expected, ids.len()));
    }
    let batch = training::Batch {
        sequences: 1,
        ids,
        targets: ids, // not looked at
        replay: None,
    };
    let mut bounds = Vec::new();
    let mut fault = None;
    watch(config, tensors, &batch, |call| match heads(call) {
        Ok(heads) => bounds.extend(heads),
        Err(error) => fault = Some(error),
    })?;
    fault.map_or(Ok(bounds), Err)
}

fn heads(call: &LayerCall<'_>) -> Result<Vec<HeadBound>> {
    let head = |head| {
        let sequence = Sequence::new(call.dims, call.inputs, 0, head);
        let costs = Costs::of(&sequence)?;
        let decisions = &call.output.trace.decisions;
        let starts = starts(call.dims, call.config.schedule, decisions, head);
        Ok(HeadBound {
            layer: call.layer,
            head,
            states: starts.len(),
            greedy: costs.bound(&starts),
            offline: costs.bound(&costs.best(call.dims.capacity)),
            single: costs.bound(&[0]),
        })
    };
    (0..call.dims.heads).map(head).collect()
}

/// Where the states at the end begin, oldest first.
fn starts(dims: &Dims, schedule: Schedule, decisions: &Decisions, head: usize) -> Vec<usize> {
    let mut starts = Vec::new();
    for t in 0..dims.tokens {
        let decision = decisions.get(dims.token_head(0, t, head));
        match decision.merge_at {
            Some(at) if schedule == Schedule::Fenwick => starts.truncate(at + 1),
            // With room for one state the token joins it.
            Some(_) if dims.capacity == 1 => continue,
            Some(at) => {
                starts.remove(at + 1);
            }
            None => {}
        }
        if decision.opens {
            starts.push(t);
        }
    }
    starts
}
