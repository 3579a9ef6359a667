//! The DLA operator inside a mixer: thresholds, read weights, states.

use super::call::Seen;
use super::config::ModelConfig;
use super::finite::check_finite;
use super::session::LayerState;
use super::slices::CHUNK;
use super::tensors::DlaTensors;
use crate::cache::Cache;
use crate::config::{Config, Schedule};
use crate::decisions::Decisions;
use crate::dims::Dims;
use crate::dla::readout::weight_index;
use crate::dla::{chunk, recurrent};
use crate::error::Result;
use crate::inputs::Inputs;
use crate::nn::Linear;
use crate::nn::activation::softplus;
use crate::parallel::{EXPONENTIAL, for_rows};

/// One layer's operator.
#[derive(Clone, Debug)]
pub(super) struct Operator {
    dims: Dims,
    config: Config,
    tau: Vec<f32>,
    read: Option<ReadWeights>,
}

/// What the backbone gives the operator; shapes as in [`Inputs`], one sequence.
#[derive(Clone, Debug)]
pub(super) struct Arrays {
    pub(super) q: Vec<f32>,
    pub(super) k: Vec<f32>,
    pub(super) v: Vec<f32>,
    pub(super) g: Vec<f32>,
    pub(super) beta: Option<Vec<f32>>,
}

impl Operator {
    /// The operator of a mixer; a plain checkpoint has no tensors for it.
    pub(super) fn new(config: &ModelConfig, tensors: Option<DlaTensors<Vec<f32>>>) -> Self {
        let (dims, operator) = (config.dims(), config.operator());
        let (mut tau, mut read) = (Vec::new(), None);
        if let Some(tensors) = tensors {
            if operator.schedule == Schedule::Dynamic {
                tau = tensors.tau;
            }
            read = Some(ReadWeights {
                projection: Linear::new(config.hidden, tensors.lambda_proj, None),
                scale: tensors.lambda_scale,
                bias: tensors.lambda_bias,
            });
        }
        Self {
            dims,
            config: operator,
            tau,
            read,
        }
    }

    /// The thresholds `[heads]`; none where the schedule has none.
    pub(super) fn tau(&self) -> &[f32] {
        &self.tau
    }

    /// Runs the operator on the tokens of `arrays`; `x` `[tokens, hidden]` is the mixer's input. `state` goes on to after
    /// them; gives the output `[tokens, heads, value_dim]` and what was seen on the way.
    pub(super) fn forward(
        &self,
        x: &[f32],
        arrays: &Arrays,
        state: &mut LayerState,
        replay: Option<&Decisions>,
    ) -> Result<(Vec<f32>, Seen)> {
        let tokens = arrays.g.len() / self.dims.heads;
        let dims = Dims {
            tokens,
            ..self.dims
        };
        let lambda = match &self.read {
            Some(read) => read.forward(x),
            None => vec![1.0; dims.lambda_len()],
        };
        check_finite("g", &arrays.g)?;
        check_finite("lambda", &lambda)?;
        let inputs = Inputs {
            q: &arrays.q,
            k: &arrays.k,
            v: &arrays.v,
            g: Some(&arrays.g),
            beta: arrays.beta.as_deref(),
            lambda: &lambda,
            tau: &self.tau,
            lengths: None,
            replay,
        };
        let cache = Some(&*state.cache);
        let output = match tokens {
            1 => recurrent::forward(&dims, &self.config, &inputs, cache),
            _ => chunk::forward(&dims, &self.config, &inputs, cache, CHUNK),
        }?;
        let seen = Seen {
            lambda: self.by_rank(&lambda, &output.cache),
            trace: output.trace,
        };
        state.cache = output.cache.into();
        Ok((output.o, seen))
    }

    /// The last token's λ of `lambda` `[tokens, heads, capacity]` by rank, `cache` as that token left it.
    fn by_rank(&self, lambda: &[f32], cache: &Cache<f32>) -> Vec<f32> {
        let (schedule, capacity) = (self.config.schedule, self.dims.capacity);
        let row = self.dims.heads * capacity;
        let mut last = lambda[lambda.len().saturating_sub(row)..].to_vec();
        if schedule == Schedule::Fenwick {
            for (head, by_rank) in last.chunks_exact_mut(capacity).enumerate() {
                let by_level = by_rank.to_vec();
                let held = &cache.n[head * capacity..][..capacity];
                let count = held.iter().filter(|&&n| n > 0).count();
                let position = cache.position(&self.dims, head);
                for index in 0..count {
                    let level = weight_index(schedule, position, count, index);
                    by_rank[count - 1 - index] = by_level[level];
                }
            }
        }
        last
    }
}

/// λ = softplus(L · (W x) + a), by head and rank (`docs/algorithm.md` §6).
#[derive(Clone, Debug)]
struct ReadWeights {
    /// W `[heads · capacity, hidden]`.
    projection: Linear,
    /// L `[heads, capacity]`.
    scale: Vec<f32>,
    /// a `[heads, capacity]`.
    bias: Vec<f32>,
}

impl ReadWeights {
    /// `x` `[tokens, hidden]` to `[tokens, heads, capacity]`.
    fn forward(&self, x: &[f32]) -> Vec<f32> {
        let mut lambda = self.projection.forward(x);
        let cost = lambda.len().saturating_mul(EXPONENTIAL);
        for_rows(&mut lambda, self.scale.len(), cost, |_, row| {
            for (x, (scale, bias)) in row.iter_mut().zip(self.scale.iter().zip(&self.bias)) {
                *x = softplus(scale * *x + bias);
            }
        });
        lambda
    }
}
