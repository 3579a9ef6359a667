//! The DLA operator inside a mixer: read weights, states, and the gradients of both.

use crate::config::{Config, Schedule};
use crate::decisions::Trace;
use crate::dims::Dims;
use crate::dla::backward;
use crate::dla::gate::Gate;
use crate::error::Result;
use crate::inputs::{Inputs, Output};
use crate::model::config::ModelConfig;
use crate::model::tensors::DlaTensors;
use crate::nn::Linear;
use crate::nn::activation::{sigmoid, softplus};
use crate::vector::add;

/// A call of the operator on a batch that starts from nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call<'a> {
    pub(super) dims: &'a Dims,
    pub(super) config: &'a Config,
    pub(super) inputs: &'a Inputs<'a, f64>,
}

/// Runs the operator of layer `.0` forward.
pub(super) type Run<'a> = dyn Fn(usize, &Call<'_>) -> Result<Output<f64>> + 'a;
/// Runs the operator of one layer forward.
pub(super) type LayerRun<'a> = dyn Fn(&Call<'_>) -> Result<Output<f64>> + 'a;

/// One layer's operator.
#[derive(Clone, Debug)]
pub(super) struct Operator {
    /// Sizes of one sequence without tokens.
    dims: Dims,
    config: Config,
    /// τ `[heads]`, empty where the schedule reads none.
    tau: Vec<f64>,
    read: Option<ReadWeights>,
}

/// What the backbone gives the operator, or the gradients by it; shapes as in [`Inputs`].
#[derive(Clone, Debug)]
pub(super) struct Arrays {
    pub(super) q: Vec<f64>,
    pub(super) k: Vec<f64>,
    pub(super) v: Vec<f64>,
    pub(super) g: Vec<f64>,
    pub(super) beta: Option<Vec<f64>>,
}

/// What the forward pass leaves for the backward pass.
#[derive(Clone, Debug)]
pub(super) struct OperatorTape {
    arrays: Arrays,
    lambda: Vec<f64>,
    /// W x, `[rows, heads, capacity]`; empty without read weights.
    projected: Vec<f64>,
    pub(super) trace: Trace,
}

/// What the operator gives on the way back.
pub(super) struct OperatorGradients {
    pub(super) arrays: Arrays,
    pub(super) dla: Option<DlaTensors<Vec<f64>>>,
}

impl Operator {
    /// The operator of a mixer; a plain model has no tensors for it.
    pub(super) fn new(config: &ModelConfig, tensors: Option<DlaTensors<Vec<f64>>>) -> Self {
        let operator = config.operator();
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
            dims: config.dims(),
            config: operator,
            tau,
            read,
        }
    }

    /// `o` `[rows, heads, value_dim]` of `arrays`; `x` `[rows, hidden]` is the mixer's input.
    pub(super) fn forward(
        &self,
        x: &[f64],
        arrays: Arrays,
        sequences: usize,
        run: &LayerRun<'_>,
    ) -> Result<(Vec<f64>, OperatorTape)> {
        let dims = self.dims(&arrays, sequences);
        let projected = self
            .read
            .as_ref()
            .map_or_else(Vec::new, |read| read.projection.forward(x));
        let lambda = match &self.read {
            Some(read) => read.weights(&projected),
            None => vec![1.0; dims.lambda_len()],
        };
        let mut tape = OperatorTape {
            arrays,
            lambda,
            projected,
            trace: Trace::default(),
        };
        let output = run(&Call {
            dims: &dims,
            config: &self.config,
            inputs: &self.inputs(&tape),
        })?;
        tape.trace = output.trace;
        Ok((output.o, tape))
    }

    /// The gradients of Σ o·do; adds to `d_x` of the mixer's input `x` what comes through λ.
    pub(super) fn backward(
        &self,
        tape: &OperatorTape,
        (x, d_x): (&[f64], &mut [f64]),
        d_o: &[f64],
        sequences: usize,
        gate: &Gate,
    ) -> Result<OperatorGradients> {
        let dims = self.dims(&tape.arrays, sequences);
        let inputs = Inputs {
            replay: Some(&tape.trace.decisions),
            ..self.inputs(tape)
        };
        let d = backward::backward(&dims, &self.config, &inputs, None, d_o, gate)?;
        let dla = self.read.as_ref().map(|read| {
            let (d_read, d_scale, d_bias) = read.backward(&tape.projected, &d.lambda);
            let projection = read.projection.backward(x, &d_read);
            add(d_x, &projection.x);
            DlaTensors {
                tau: d.tau,
                lambda_proj: projection.weight,
                lambda_scale: d_scale,
                lambda_bias: d_bias,
            }
        });
        let arrays = Arrays {
            q: d.q,
            k: d.k,
            v: d.v,
            g: d.g.unwrap_or_default(),
            beta: d.beta,
        };
        Ok(OperatorGradients { arrays, dla })
    }

    fn inputs<'a>(&'a self, tape: &'a OperatorTape) -> Inputs<'a, f64> {
        let arrays = &tape.arrays;
        Inputs {
            q: &arrays.q,
            k: &arrays.k,
            v: &arrays.v,
            g: Some(&arrays.g),
            beta: arrays.beta.as_deref(),
            lambda: &tape.lambda,
            tau: &self.tau,
            lengths: None,
            replay: None,
        }
    }

    fn dims(&self, arrays: &Arrays, sequences: usize) -> Dims {
        Dims {
            batch: sequences,
            tokens: arrays.g.len() / self.dims.heads / sequences,
            ..self.dims
        }
    }
}

/// λ = softplus(L · (W x) + a), by head and rank (`docs/algorithm.md` §6).
#[derive(Clone, Debug)]
struct ReadWeights {
    /// W `[heads · capacity, hidden]`.
    projection: Linear<f64>,
    /// L `[heads, capacity]`.
    scale: Vec<f64>,
    /// a `[heads, capacity]`.
    bias: Vec<f64>,
}

impl ReadWeights {
    /// λ of `projected` = W x, both `[rows, heads, capacity]`.
    fn weights(&self, projected: &[f64]) -> Vec<f64> {
        let own = self.scale.iter().zip(&self.bias).cycle();
        let pairs = projected.iter().zip(own);
        pairs
            .map(|(x, (scale, bias))| softplus(scale * x + bias))
            .collect()
    }

    /// The gradients by W x, L and a.
    fn backward(&self, projected: &[f64], d_lambda: &[f64]) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
        let width = self.scale.len();
        let mut d_read = vec![0.0; projected.len()];
        let (mut d_scale, mut d_bias) = (vec![0.0; width], vec![0.0; width]);
        for (at, d_lambda) in d_lambda.iter().enumerate() {
            let (i, x) = (at % width, projected[at]);
            let d = d_lambda * sigmoid(self.scale[i] * x + self.bias[i]);
            d_read[at] = d * self.scale[i];
            d_scale[i] += d * x;
            d_bias[i] += d;
        }
        (d_read, d_scale, d_bias)
    }
}
