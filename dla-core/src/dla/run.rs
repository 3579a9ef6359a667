//! What one head of one sequence gives back, and how a call's output is put together from all of them.

use super::state::{self, State};
use crate::cache::Cache;
use crate::config::Schedule;
use crate::decisions::{Decision, Trace};
use crate::dims::Dims;
use crate::inputs::Output;
use crate::real::Real;

/// The result of one head of one sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct Run<R> {
    /// `[length, value_dim]`.
    pub o: Vec<R>,
    /// Scores `[length]`.
    pub score: Vec<R>,
    /// Decisions `[length]`.
    pub decisions: Vec<Decision>,
    /// Live states after each step `[length]`.
    pub count: Vec<usize>,
    /// The states after the last token, oldest first.
    pub states: Vec<State<R>>,
}

impl<R: Real> Run<R> {
    /// An empty run that starts from `states` and expects `length` tokens.
    pub fn new(states: Vec<State<R>>, length: usize) -> Self {
        Self {
            o: Vec::new(),
            score: Vec::with_capacity(length),
            decisions: Vec::with_capacity(length),
            count: Vec::with_capacity(length),
            states,
        }
    }
}

/// Puts the runs, in `[batch, heads]` order, into one output.
pub fn gather<R: Real>(dims: &Dims, schedule: Schedule, runs: Vec<Run<R>>) -> Output<R> {
    let mut output = Output {
        o: vec![R::ZERO; dims.value_len()],
        trace: Trace::new(dims),
        cache: Cache::new(dims),
    };
    for (i, run) in runs.into_iter().enumerate() {
        let (b, h) = (i / dims.heads, i % dims.heads);
        for (t, o) in run.o.chunks_exact(dims.value_dim).enumerate() {
            let at = dims.token_head(b, t, h);
            output.o[at * dims.value_dim..][..dims.value_dim].copy_from_slice(o);
            output.trace.score[at] = run.score[t].to_f64() as f32;
            output.trace.decisions.set(at, run.decisions[t]);
            output.trace.count[at] = run.count[t] as i32;
            output.trace.non_finite += u64::from(!run.score[t].is_finite());
        }
        state::store(dims, schedule, &run.states, &mut output.cache, b, h);
    }
    output
}
