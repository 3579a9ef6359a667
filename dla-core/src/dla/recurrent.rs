//! The recurrence, token by token: the oracle that every other form is compared with.

use super::gate::{self, Gate, GateMode};
use super::run::{self, Run};
use super::schedule::{self, Decider};
use super::score::Score;
use super::sequence::Sequence;
use super::state::{self, State};
use super::{boundary, merge, readout};
use crate::backbone;
use crate::cache::Cache;
use crate::check::check_len;
use crate::config::{Config, Schedule};
use crate::decisions::{Decision, Decisions};
use crate::dims::Dims;
use crate::error::Result;
use crate::inputs::{Inputs, Output};
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
    forward_gated(dims, config, inputs, cache, &Gate::default())
}

/// [`forward`] under `gate`: the soft recurrence in mode `soft`, the hard one in every other.
///
/// # Errors
/// Those of [`forward`], and a θ that is not above 0.
pub fn forward_gated<R: Real>(
    dims: &Dims,
    config: &Config,
    inputs: &Inputs<'_, R>,
    cache: Option<&Cache<R>>,
    gate: &Gate,
) -> Result<Output<R>> {
    let observers = vec![(); dims.sequences()];
    observe(dims, config, inputs, cache, gate, &observers).map(|(output, _)| output)
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

/// The recurrence under `gate` with an observer for each sequence and head, `[batch, heads]`, given
/// back as it ended.
///
/// # Errors
/// Those of [`forward_gated`], and a number of observers that does not fit.
pub fn observe<R: Real, O: Observer<R>>(
    dims: &Dims,
    config: &Config,
    inputs: &Inputs<'_, R>,
    cache: Option<&Cache<R>>,
    gate: &Gate,
    observers: &[O],
) -> Result<(Output<R>, Vec<O>)> {
    inputs.check(dims, config, cache)?;
    gate.check()?;
    check_len("observers", observers.len(), dims.sequences())?;
    let forced = schedule::forced(dims, config, inputs, cache)?;
    let runs = map_sequences(dims, |b, h| {
        let head = Head::new(dims, config, inputs, (b, h), forced.as_deref(), gate);
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
pub(super) struct Head<'a, R> {
    pub(super) config: &'a Config,
    pub(super) sequence: Sequence<'a, R>,
    dims: &'a Dims,
    decider: Decider<'a, R>,
    score: Score<R>,
    gate: Gate,
}

impl<'a, R: Real> Head<'a, R> {
    /// Head `h` of sequence `b` of inputs that have been checked.
    pub(super) fn new(
        dims: &'a Dims,
        config: &'a Config,
        inputs: &'a Inputs<'a, R>,
        (b, h): (usize, usize),
        forced: Option<&'a Decisions>,
        gate: &Gate,
    ) -> Self {
        let sequence = Sequence::new(dims, inputs, b, h);
        Self {
            config,
            sequence,
            dims,
            decider: Decider::new(config, dims.capacity, sequence.tau(), forced),
            score: Score::new(dims, config),
            gate: *gate,
        }
    }

    /// True where the gate moves content between states.
    pub(super) fn is_soft(&self) -> bool {
        self.gate.mode == GateMode::Soft && self.config.schedule == Schedule::Dynamic
    }

    /// All tokens, from `states` on.
    fn run(&self, states: Vec<State<R>>, observer: &mut impl Observer<R>) -> Run<R> {
        let mut run = Run::new(states, self.sequence.len());
        let mut o = vec![R::ZERO; self.dims.value_dim];
        for t in 0..self.sequence.len() {
            let (score, decision) = self.advance(t, &mut run.states, observer);
            self.read(t, &run.states, &mut o);
            run.o.extend_from_slice(&o);
            run.score.push(score);
            run.decisions.push(decision);
            run.count.push(run.states.len());
        }
        run
    }

    /// Token `t`: transition, score, decision, merge, write. Gives the score and the decision.
    pub(super) fn advance(
        &self,
        t: usize,
        states: &mut Vec<State<R>>,
        observer: &mut impl Observer<R>,
    ) -> (R, Decision) {
        let token = self.sequence.token(t);
        for state in states.iter_mut() {
            backbone::transition(self.config.backbone, &token, &mut state.matrix);
        }
        let mut s = vec![R::ZERO; self.dims.state_len()];
        backbone::contribution(self.config.backbone, &token, &mut s);
        let score = match states.last() {
            Some(open) if self.config.schedule == Schedule::Dynamic => {
                self.score.of_matrices(&s, &open.matrix)
            }
            _ => R::ZERO,
        };
        let decision = self.decider.decide(self.sequence.at(t), score, states);
        observer.see(t, score, states, decision);
        let mut opens = merge::apply(self.config.schedule, states, decision);
        if self.is_soft() && !states.is_empty() {
            gate::release(states, opens, self.gate.value(score, self.sequence.tau()));
            opens = false; // the new state is there
        }
        state::write(states, opens, &s, boundary::information(score));
        (score, decision)
    }

    /// The output of token `t` after its write.
    fn read(&self, t: usize, states: &[State<R>], o: &mut [R]) {
        let lambda = self.sequence.lambda(t);
        let position = states.iter().map(|state| u64::from(state.n)).sum();
        let index = |i| readout::weight_index(self.config.schedule, position, states.len(), i);
        readout::readout(self.sequence.token(t).q, states, |i| lambda[index(i)], o);
    }
}
