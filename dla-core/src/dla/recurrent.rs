//! The recurrence, token by token: the oracle that every other form is compared with.

use super::run::{self, Run};
use super::schedule::{self, Decider};
use super::score::Score;
use super::sequence::Sequence;
use super::state::{self, State};
use super::{boundary, merge, readout};
use crate::backbone;
use crate::cache::Cache;
use crate::config::{Config, Schedule};
use crate::decisions::Decision;
use crate::dims::Dims;
use crate::error::Result;
use crate::inputs::{Inputs, Output, check_len};
use crate::parallel::map_sequences;
use crate::real::Real;

/// Runs the operator token by token, from `cache` or from the beginning.
///
/// Heads and sequences run side by side under the feature `threads`; the numbers do not depend on it.
///
/// # Errors
/// Whatever [`Dims::check`] and [`Inputs::check`] refuse.
///
/// ```
/// use dla_core::{Backbone, Config, Dims, Inputs, dla::recurrent};
/// let dims = Dims { batch: 1, tokens: 2, heads: 1, groups: 1, key_dim: 1, value_dim: 1, capacity: 2 };
/// let inputs = Inputs {
///     q: &[1.0, 1.0], k: &[1.0, 1.0], v: &[3.0, -4.0], lambda: &[1.0; 4], tau: &[0.9],
///     g: None, beta: None, lengths: None, replay: None,
/// };
/// let output = recurrent::forward(&dims, &Config::new(Backbone::Plain), &inputs, None)?;
/// assert_eq!(output.o, [3.0, -1.0]);
/// assert_eq!(output.trace.decisions.boundary, [1, 1]); // opposite values: the second opens a state
/// assert_eq!(output.cache.states, [3.0, -4.0]);
/// # Ok::<(), dla_core::Error>(())
/// ```
pub fn forward<R: Real>(
    dims: &Dims,
    config: &Config,
    inputs: &Inputs<'_, R>,
    cache: Option<&Cache<R>>,
) -> Result<Output<R>> {
    observe(dims, config, inputs, cache, &vec![(); dims.sequences()]).map(|(output, _)| output)
}

/// Sees every token of one head of one sequence as it is decided.
pub trait Observer<R>: Clone + Send + Sync {
    /// Token `token` was scored against the newest of `states` (oldest first, after the transition,
    /// before the merge and the write), and `decided`.
    fn see(&mut self, token: usize, score: R, states: &[State<R>], decided: Decision);
}

impl<R> Observer<R> for () {
    fn see(&mut self, _: usize, _: R, _: &[State<R>], _: Decision) {}
}

/// [`forward`] with an observer for each sequence and head, `[batch, heads]`, given back as it ended.
///
/// # Errors
/// Those of [`forward`], and a number of observers that does not fit.
pub fn observe<R: Real, O: Observer<R>>(
    dims: &Dims,
    config: &Config,
    inputs: &Inputs<'_, R>,
    cache: Option<&Cache<R>>,
    observers: &[O],
) -> Result<(Output<R>, Vec<O>)> {
    inputs.check(dims, config, cache)?;
    check_len("observers", observers.len(), dims.sequences())?;
    let forced = schedule::forced(dims, config, inputs, cache)?;
    let runs = map_sequences(dims, |b, h| {
        let sequence = Sequence::new(dims, inputs, b, h);
        let head = Head {
            dims,
            config,
            sequence,
            decider: Decider::new(config, dims.capacity, sequence.tau(), forced.as_deref()),
        };
        let states = cache.map_or_else(Vec::new, |cache| {
            state::load(dims, config.schedule, cache, b, h)
        });
        let mut observer = observers[b * dims.heads + h].clone();
        (head.run(states, &mut observer), observer)
    });
    let (runs, observers) = runs.into_iter().unzip();
    Ok((run::gather(dims, config.schedule, runs), observers))
}

/// One head of one sequence.
struct Head<'a, R> {
    dims: &'a Dims,
    config: &'a Config,
    sequence: Sequence<'a, R>,
    decider: Decider<'a, R>,
}

impl<R: Real> Head<'_, R> {
    fn run(&self, states: Vec<State<R>>, observer: &mut impl Observer<R>) -> Run<R> {
        let Self {
            dims,
            config,
            sequence,
            decider,
        } = self;
        let score = Score::new(dims, config);
        let mut s = vec![R::ZERO; dims.state_len()];
        let mut o = vec![R::ZERO; dims.value_dim];
        let mut run = Run::new(states, sequence.len());
        for t in 0..sequence.len() {
            let token = sequence.token(t);
            for state in &mut run.states {
                backbone::transition(config.backbone, &token, &mut state.matrix);
            }
            backbone::contribution(config.backbone, &token, &mut s);
            let score = match run.states.last() {
                Some(open) if config.schedule == Schedule::Dynamic => {
                    score.of_matrices(&s, &open.matrix)
                }
                _ => R::ZERO,
            };
            let decision = decider.decide(sequence.at(t), score, &run.states);
            observer.see(t, score, &run.states, decision);
            step(config.schedule, &mut run.states, decision, &s, score);
            read_states(
                config.schedule,
                sequence.lambda(t),
                token.q,
                &run.states,
                &mut o,
            );
            run.o.extend_from_slice(&o);
            run.score.push(score);
            run.decisions.push(decision);
            run.count.push(run.states.len());
        }
        run
    }
}

/// Carries out a decision: merges first, then the token joins or opens.
pub fn step<R: Real>(
    schedule: Schedule,
    states: &mut Vec<State<R>>,
    decision: Decision,
    s: &[R],
    score: R,
) {
    let info = boundary::information(score);
    let lone = states.len() == 1 && decision.merge_at.is_some();
    match (decision.merge_at, schedule) {
        (Some(at), Schedule::Fenwick) => merge::suffix(states, at),
        (Some(at), _) => merge::pair(states, at),
        (None, _) => {}
    }
    match states.last_mut() {
        Some(open) if lone || !decision.opens => open.join(s, info),
        _ => states.push(State::of_token(s, info)),
    }
}

/// The output of one token after its write.
fn read_states<R: Real>(
    schedule: Schedule,
    lambda: &[R],
    q: &[R],
    states: &[State<R>],
    o: &mut [R],
) {
    let position = states.iter().map(|state| u64::from(state.n)).sum();
    let weight = |i| lambda[readout::weight_index(schedule, position, states.len(), i)];
    readout::readout(q, states, weight, o);
}
