//! Gradients of the recurrence (`docs/algorithm.md` §11), token by token from the last to the first.
//!
//! Decisions are held fixed: gradients flow through the matrices, and reach τ through the gate.

use super::gate::{Gate, GateMode};
use super::recurrent::Head;
use super::state::{self, State};
use super::{merge, readout, schedule};
use crate::backbone::{self, TokenGradient};
use crate::cache::Cache;
use crate::check::check_len;
use crate::config::{Config, Schedule};
use crate::decisions::Decision;
use crate::dims::Dims;
use crate::error::Result;
use crate::inputs::Inputs;
use crate::parallel::map_sequences;
use crate::real::Real;
use crate::vector::{add_outer, add_scaled, dot};

/// States are kept at every so many tokens on the way forward, and recomputed in between on the way back.
const SEGMENT: usize = 64;

/// The gradients of Σ o·do, each in its input's shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Gradients<R> {
    /// By `q`.
    pub q: Vec<R>,
    /// By `k`.
    pub k: Vec<R>,
    /// By `v`.
    pub v: Vec<R>,
    /// By `g`, where there is one.
    pub g: Option<Vec<R>>,
    /// By `beta`, where there is one.
    pub beta: Option<Vec<R>>,
    /// By `lambda`.
    pub lambda: Vec<R>,
    /// By τ, `[heads]`, summed over the batch; zeros where the gate is hard or the schedule reads no τ.
    pub tau: Vec<R>,
    /// By the states that the call started from, `[batch, heads, capacity, key_dim, value_dim]`.
    pub states: Vec<R>,
}

/// The gradients of Σ o·do, `d_o` `[batch, tokens, heads, value_dim]`, of the recurrence under `gate`.
///
/// # Errors
/// Whatever [`recurrent::forward`](super::recurrent::forward) refuses, a `d_o` (`do`) of another length, a θ that is not above 0.
///
/// ```
/// use dla_core::{Backbone, Config, Dims, Inputs, dla::{backward, gate::Gate}};
/// let dims = Dims { batch: 1, tokens: 1, heads: 1, groups: 1, key_dim: 1, value_dim: 1, capacity: 1 };
/// let inputs = Inputs {
///     q: &[2.0], k: &[3.0], v: &[5.0], lambda: &[1.0], tau: &[0.9],
///     g: None, beta: None, lengths: None, replay: None,
/// };
/// let config = Config::new(Backbone::Plain);
/// let gradients = backward::backward(&dims, &config, &inputs, None, &[1.0], &Gate::default())?;
/// assert_eq!((gradients.q[0], gradients.k[0], gradients.v[0]), (15.0, 10.0, 6.0));
/// # Ok::<(), dla_core::Error>(())
/// ```
pub fn backward<R: Real>(
    dims: &Dims,
    config: &Config,
    inputs: &Inputs<'_, R>,
    cache: Option<&Cache<R>>,
    d_o: &[R],
    gate: &Gate,
) -> Result<Gradients<R>> {
    inputs.check(dims, config, cache)?;
    gate.check()?;
    check_len("do", d_o.len(), dims.value_len())?;
    let forced = schedule::forced(dims, config, inputs, cache)?;
    let parts = map_sequences(dims, |b, h| {
        let head = Head::new(dims, config, inputs, (b, h), forced.as_deref(), gate);
        let start = cache.map_or_else(Vec::new, |cache| {
            state::load(dims, config.schedule, cache, b, h)
        });
        Backward::new(&head, gate, d_o).run(start)
    });
    Ok(gather(dims, config.schedule, inputs, parts))
}

/// What one head of one sequence gives.
struct Part<R> {
    tokens: Vec<TokenGradient<R>>,
    lambda: Vec<Vec<R>>,
    tau: R,
    start: Vec<State<R>>,
}

/// A step on the way forward, as the way back needs it.
struct Record<R> {
    score: R,
    decision: Decision,
    after: Vec<State<R>>,
}

/// One head of one sequence on the way back.
struct Backward<'a, R> {
    head: &'a Head<'a, R>,
    gate: &'a Gate,
    d_o: &'a [R],
    /// dS of the live states, oldest first.
    d_states: Vec<Vec<R>>,
    tau: R,
}

impl<'a, R: Real> Backward<'a, R> {
    fn new(head: &'a Head<'a, R>, gate: &'a Gate, d_o: &'a [R]) -> Self {
        Self {
            head,
            gate,
            d_o,
            d_states: Vec::new(),
            tau: R::ZERO,
        }
    }

    fn run(mut self, start: Vec<State<R>>) -> Part<R> {
        let length = self.head.sequence.len();
        let mut states = start.clone();
        let mut snapshots = Vec::new();
        for t in 0..length {
            if t % SEGMENT == 0 {
                snapshots.push(states.clone());
            }
            self.head.advance(t, &mut states, &mut ());
        }
        let zeros = |state: &State<R>| vec![R::ZERO; state.matrix.len()];
        self.d_states = states.iter().map(zeros).collect();
        let (mut tokens, mut lambda) = (Vec::new(), Vec::new());
        for (i, snapshot) in snapshots.iter().enumerate().rev() {
            let first = i * SEGMENT;
            let records = self.record(first, SEGMENT.min(length - first), snapshot.clone());
            for (j, record) in records.iter().enumerate().rev() {
                let before = j.checked_sub(1).map_or(snapshot, |j| &records[j].after);
                let (token, weights) = self.step_back(first + j, before, record);
                tokens.push(token);
                lambda.push(weights);
            }
        }
        tokens.reverse();
        lambda.reverse();
        let start = with_matrices(start, self.d_states);
        Part {
            tokens,
            lambda,
            tau: self.tau,
            start,
        }
    }

    fn record(&self, first: usize, len: usize, mut states: Vec<State<R>>) -> Vec<Record<R>> {
        let step = |t| {
            let (score, decision) = self.head.advance(t, &mut states, &mut ());
            let after = states.clone();
            Record {
                score,
                decision,
                after,
            }
        };
        (first..first + len).map(step).collect()
    }

    /// Takes dS from after token `t` to before it; gives the token's gradients and those of its λ.
    fn step_back(
        &mut self,
        t: usize,
        before: &[State<R>],
        record: &Record<R>,
    ) -> (TokenGradient<R>, Vec<R>) {
        let (token, config) = (self.head.sequence.token(t), self.head.config);
        let mut gradient = TokenGradient::new(&token);
        let lambda = self.readout(t, &record.after, &mut gradient);

        let mut moved = before.to_vec();
        for state in &mut moved {
            backbone::transition(config.backbone, &token, &mut state.matrix);
        }
        let mut merged = moved.clone();
        let opens = merge::apply(config.schedule, &mut merged, record.decision);
        if let Some(d_s) = self.d_states.last() {
            backbone::contribution_backward(&token, d_s, &mut gradient);
        }
        self.release(record, opens, merged.last());
        if let Some(at) = record.decision.merge_at {
            let absorbed = vec![self.d_states[at].clone(); moved.len() - merged.len()];
            self.d_states.splice(at + 1..at + 1, absorbed);
        }
        for ((d_state, before), moved) in self.d_states.iter_mut().zip(before).zip(&moved) {
            let pair = [&before.matrix[..], &moved.matrix];
            backbone::transition_backward(config.backbone, &token, pair, d_state, &mut gradient);
        }
        (gradient, lambda)
    }

    /// The readout: adds to dS and dq, gives dλ.
    fn readout(&mut self, t: usize, after: &[State<R>], gradient: &mut TokenGradient<R>) -> Vec<R> {
        let sequence = &self.head.sequence;
        let (q, lambda) = (sequence.token(t).q, sequence.lambda(t));
        let dv = gradient.v.len();
        let d_o = &self.d_o[sequence.at(t) * dv..(sequence.at(t) + 1) * dv];
        let mut d_lambda = vec![R::ZERO; lambda.len()];
        let position = after.iter().map(|state| u64::from(state.n)).sum();
        for (i, (state, d_state)) in after.iter().zip(&mut self.d_states).enumerate() {
            let at = readout::weight_index(self.head.config.schedule, position, after.len(), i);
            add_outer(d_state, lambda[at], q, d_o);
            let rows = q.iter().zip(&mut gradient.q);
            for ((&q, d_q), row) in rows.zip(state.matrix.chunks_exact(dv)) {
                let read = dot(row, d_o);
                *d_q += lambda[at] * read;
                d_lambda[at] += q * read;
            }
        }
        d_lambda
    }

    /// Undoes the write and what the gate moved; `open` is the open state before them.
    ///
    /// `dL/dγ = ⟨dS_prev − dS_open, open⟩` where two states live after the step.
    fn release(&mut self, record: &Record<R>, opens: bool, open: Option<&State<R>>) {
        let two = self.d_states.len() >= 2;
        let Some(mut d_open) = self.d_states.pop() else {
            return;
        };
        let (Some(open), true) = (open, two) else {
            if !opens {
                self.d_states.push(d_open);
            }
            return;
        };
        let Some(d_previous) = self.d_states.last_mut() else {
            return;
        };
        let d_gamma = dot(d_previous, &open.matrix) - dot(&d_open, &open.matrix);
        let tau = self.head.sequence.tau();
        if self.head.config.schedule == Schedule::Dynamic && self.gate.mode != GateMode::Hard {
            self.tau += -d_gamma * self.gate.slope(record.score, tau);
        }
        if self.head.is_soft() {
            let gamma = self.gate.value(record.score, tau);
            for (open, &previous) in d_open.iter_mut().zip(&*d_previous) {
                *open = (R::ONE - gamma) * *open + gamma * previous;
            }
        } else if opens {
            d_open.clone_from(d_previous);
        }
        if opens {
            *d_previous = d_open; // the closed state was the open one
        } else {
            self.d_states.push(d_open);
        }
    }
}

/// The states with other matrices.
fn with_matrices<R>(states: Vec<State<R>>, matrices: Vec<Vec<R>>) -> Vec<State<R>> {
    let replace = |(state, matrix)| State { matrix, ..state };
    states.into_iter().zip(matrices).map(replace).collect()
}

fn gather<R: Real>(
    dims: &Dims,
    schedule: Schedule,
    inputs: &Inputs<'_, R>,
    parts: Vec<Part<R>>,
) -> Gradients<R> {
    let zeros = |len: usize| vec![R::ZERO; len];
    let mut all = Gradients {
        q: zeros(dims.key_len()),
        k: zeros(dims.key_len()),
        v: zeros(dims.value_len()),
        g: inputs.g.map(|g| zeros(g.len())),
        beta: inputs.beta.map(|beta| zeros(beta.len())),
        lambda: zeros(dims.lambda_len()),
        tau: zeros(dims.heads),
        states: Vec::new(),
    };
    let mut start = Cache::new(dims);
    for (i, part) in parts.into_iter().enumerate() {
        let (b, h) = (i / dims.heads, i % dims.heads);
        for (t, (token, lambda)) in part.tokens.iter().zip(&part.lambda).enumerate() {
            let (key, at) = (dims.key_at(b, t, h), dims.token_head(b, t, h));
            add_scaled(&mut all.q[key..key + dims.key_dim], R::ONE, &token.q);
            add_scaled(&mut all.k[key..key + dims.key_dim], R::ONE, &token.k);
            all.v[at * dims.value_dim..][..dims.value_dim].copy_from_slice(&token.v);
            all.lambda[at * dims.capacity..][..dims.capacity].copy_from_slice(lambda);
            for (gate, value) in [(&mut all.g, token.g), (&mut all.beta, token.beta)] {
                if let Some(gate) = gate {
                    gate[at] = value;
                }
            }
        }
        all.tau[h] += part.tau;
        state::store(dims, schedule, &part.start, &mut start, b, h);
    }
    all.states = start.states;
    all
}
