//! The chunkwise form (`docs/algorithm.md` §8) in plain Rust, in the stages that the GPU's passes have.
//!
//! | stage | reads | gives |
//! |---|---|---|
//! | [`score`] | keys, values | for every token that could open a state: the scores after it, the next boundary |
//! | [`boundary_scan`] | those, the open state | the scores and boundaries that come true |
//! | [`compact`] | scores, boundaries | merges, the slot map, places: scalars only |
//! | [`output`] | queries, entered states, slot map | the outputs |
//! | [`state`] | entered states, slot map at the chunk's end | the states, each place touched once |
//!
//! A *source* is what a state is made of inside a chunk: the states that the chunk was entered with
//! come first, oldest first, then the chunk's tokens. Every state holds a contiguous span of sources.

pub mod boundary_scan;
pub mod compact;
pub mod output;
pub mod score;
pub mod state;

use self::boundary_scan::Scan;
use self::compact::{Slot, SlotMap};
use self::score::Rule;
use super::run::{self, Run};
use super::schedule;
use super::score::Score;
use super::sequence::Sequence;
use super::state::{State, load};
use crate::backbone::{self, Form, Token};
use crate::cache::Cache;
use crate::config::{Config, Schedule};
use crate::decisions::{Decision, Decisions};
use crate::dims::Dims;
use crate::error::{Error, Result};
use crate::inputs::{Inputs, Output};
use crate::parallel::map_sequences;
use crate::real::Real;

/// The most tokens of a chunk: its tables grow with the square.
pub const MAX_CHUNK: usize = 1024;

/// Runs the operator chunk by chunk, `chunk` tokens each, from `cache` or from the beginning.
///
/// Equal to [`recurrent::forward`](super::recurrent::forward) up to rounding, wherever no decision
/// is a near tie.
///
/// # Errors
/// Whatever [`Inputs::check`] refuses, and a `chunk` outside 1 to [`MAX_CHUNK`].
///
/// ```
/// use dla_core::{Backbone, Config, Dims, Inputs, dla::chunk};
/// let dims = Dims { batch: 1, tokens: 2, heads: 1, groups: 1, key_dim: 1, value_dim: 1, capacity: 2 };
/// let inputs = Inputs {
///     q: &[1.0, 1.0], k: &[1.0, 1.0], v: &[3.0, -4.0], lambda: &[1.0; 4], tau: &[0.9],
///     g: None, beta: None, lengths: None, replay: None,
/// };
/// let output = chunk::forward(&dims, &Config::new(Backbone::Plain), &inputs, None, 64)?;
/// assert_eq!(output.o, [3.0, -1.0]);
/// # Ok::<(), dla_core::Error>(())
/// ```
pub fn forward<R: Real>(
    dims: &Dims,
    config: &Config,
    inputs: &Inputs<'_, R>,
    cache: Option<&Cache<R>>,
    chunk: usize,
) -> Result<Output<R>> {
    inputs.check(dims, config, cache)?;
    if chunk == 0 || chunk > MAX_CHUNK {
        return Err(Error::input(
            "op",
            "chunk",
            format!("1 to {MAX_CHUNK}"),
            chunk,
        ));
    }
    let forced = schedule::forced(dims, config, inputs, cache)?;
    let runs = map_sequences(dims, |b, h| {
        let sequence = Sequence::new(dims, inputs, b, h);
        let states = cache.map_or_else(Vec::new, |cache| load(dims, config.schedule, cache, b, h));
        let length = sequence.len();
        let mut walk = Walk {
            dims,
            config,
            sequence,
            forced: forced.as_deref(),
            places: Places::new(dims, &states),
            run: Run::new(Vec::new(), length),
        };
        for first in (0..length).step_by(chunk) {
            walk.chunk(first, chunk.min(length - first));
        }
        walk.finish()
    });
    Ok(run::gather(dims, config.schedule, runs))
}

/// A head's states where they lie in memory, and the scalars that say which is which.
#[derive(Clone, Debug, PartialEq)]
pub struct Places<R> {
    /// `[capacity]` matrices `[key_dim, value_dim]`; what a free place holds does not matter.
    pub matrices: Vec<Vec<R>>,
    /// The live states, oldest first.
    pub slots: Vec<Slot<R>>,
}

impl<R: Real> Places<R> {
    /// The states of a call's start, oldest first in the first places.
    pub fn new(dims: &Dims, states: &[State<R>]) -> Self {
        let mut matrices = vec![vec![R::ZERO; dims.state_len()]; dims.capacity];
        for (place, state) in matrices.iter_mut().zip(states) {
            place.copy_from_slice(&state.matrix);
        }
        let slot = |(place, state): (usize, &State<R>)| Slot {
            place,
            first: place,
            n: state.n,
            info: state.info,
        };
        Self {
            matrices,
            slots: states.iter().enumerate().map(slot).collect(),
        }
    }

    /// The matrices of the live states, oldest first.
    pub fn entered(&self) -> Vec<&[R]> {
        let matrix = |slot: &Slot<R>| &self.matrices[slot.place][..];
        self.slots.iter().map(matrix).collect()
    }

    /// Puts a measured open state in its place; the sums that a chunk leaves there round to what was erased.
    fn set_open(&mut self, open: Option<Vec<R>>) {
        if let (Some(matrix), Some(slot)) = (open, self.slots.last()) {
            self.matrices[slot.place] = matrix;
        }
    }

    /// Tokens taken in so far.
    pub fn position(&self) -> u64 {
        self.slots.iter().map(|slot| u64::from(slot.n)).sum()
    }

    /// The live states, oldest first.
    fn into_states(self) -> Vec<State<R>> {
        let state = |slot: &Slot<R>| State {
            matrix: self.matrices[slot.place].clone(),
            n: slot.n,
            info: slot.info,
        };
        self.slots.iter().map(state).collect()
    }
}

/// One head of one sequence on its way through the chunks.
struct Walk<'a, R> {
    dims: &'a Dims,
    config: &'a Config,
    sequence: Sequence<'a, R>,
    forced: Option<&'a Decisions>,
    places: Places<R>,
    run: Run<R>,
}

impl<R: Real> Walk<'_, R> {
    /// Takes `len` tokens from `first` on through all stages.
    fn chunk(&mut self, first: usize, len: usize) {
        let tokens: Vec<_> = (first..first + len)
            .map(|t| self.sequence.token(t))
            .collect();
        let lambda: Vec<_> = (first..first + len)
            .map(|t| self.sequence.lambda(t))
            .collect();
        let form = backbone::form(self.config.backbone, &tokens);
        let forced = self.forced_decisions(first, len);
        let Scan { scores, open } = self.scores(&tokens, &form, forced.as_deref());
        let (map, slots) = self.compact(&tokens, &form, &scores, forced.as_deref());

        let position = self.places.position();
        let weights = map.weights(self.config.schedule, position, &lambda);
        let mut o = output::readout(&form, &self.places.entered(), &weights, self.dims.value_dim);
        output::chunk_output(&form, &tokens, &weights, &mut o);
        self.places = state::chunk_state(&form, &tokens, &self.places, slots);
        self.places.set_open(open);

        self.run.o.extend(o);
        self.run.score.extend(scores);
        self.run.count.extend((0..len).map(|t| map.count(t)));
        self.run.decisions.extend(map.decisions);
    }

    fn forced_decisions(&self, first: usize, len: usize) -> Option<Vec<Decision>> {
        let decision = |decisions: &Decisions, t| decisions.get(self.sequence.at(t));
        self.forced.map(|decisions| {
            (first..first + len)
                .map(|t| decision(decisions, t))
                .collect()
        })
    }

    /// Stages `score` and `boundary_scan`; zeros where the schedule measures none.
    fn scores(
        &self,
        tokens: &[Token<'_, R>],
        form: &Form<R>,
        forced: Option<&[Decision]>,
    ) -> Scan<R> {
        if self.config.schedule != Schedule::Dynamic {
            return Scan {
                scores: vec![R::ZERO; form.len],
                open: None,
            };
        }
        let rule = Rule {
            score: Score::new(self.dims, self.config),
            tau: self.sequence.tau(),
            forced,
            restarts: self.dims.capacity > 1,
        };
        let candidates = score::candidates(&rule, form, &score::sums(form, tokens));
        let entered = self.places.entered();
        let open = entered.last().copied();
        let candidate = open.map(|open| score::entered(&rule, form, tokens, open));
        let zeros = vec![R::ZERO; self.dims.state_len()];
        boundary_scan::follow(candidate.as_ref(), &candidates, |start| {
            score::measured(
                &rule,
                self.config.backbone,
                tokens,
                open.unwrap_or(&zeros),
                start,
            )
        })
    }

    /// Stage `compact`.
    fn compact(
        &self,
        tokens: &[Token<'_, R>],
        form: &Form<R>,
        scores: &[R],
        forced: Option<&[Decision]>,
    ) -> (SlotMap, Vec<Slot<R>>) {
        let mut compactor =
            compact::Compactor::new(self.dims, self.config, self.sequence.tau(), &self.places);
        if compactor.needs_moments(forced) {
            compactor.measure(form, tokens, &self.places.entered());
        }
        for (t, &score) in scores.iter().enumerate() {
            compactor.step(score, forced.map(|forced| forced[t]));
        }
        compactor.finish()
    }

    fn finish(self) -> Run<R> {
        Run {
            states: self.places.into_states(),
            ..self.run
        }
    }
}
