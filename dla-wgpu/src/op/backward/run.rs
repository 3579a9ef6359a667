//! Gradients for arrays in memory: the forward pass for the decisions, then piece by piece backwards.

use std::sync::Arc;

use dla_core::dla::backward::Gradients;
use dla_core::dla::gate::{Gate, GateMode};
use dla_core::dla::schedule;
use dla_core::{Cache, Config, Dims, Error, Inputs, Output, Result, Trace};

use super::recorder::{Backward, GradientArrays};
use super::unpack;
use crate::op::operator::{Arrays, DeviceCache, Operator};
use crate::op::options::{Decider, Options};
use crate::op::pack::{self, Piece};
use crate::op::run::{Whole, piece_size};
use crate::scope::scoped;
use crate::{Float, Gpu, Readback};

/// What gradients are taken of: Σ o·do.
#[derive(Clone, Copy, Debug)]
pub struct Loss<'a> {
    /// Its gradient by the outputs, do, `[batch, tokens, heads, value_dim]`.
    pub d_o: &'a [f32],
    /// How boundaries take part.
    pub gate: Gate,
}

/// The gradients of `loss` on the device. Never blocks the thread.
///
/// Same arguments and answers as the reference; sequences of any length are cut as
/// [`run_async`](crate::op::run_async) cuts them. On native somebody must poll the device meanwhile; [`gradients`] does both.
///
/// # Errors
/// As [`Backward::new`], and [`Error::is_input`] for arrays that do not fit `dims` or a θ that is not above 0.
pub async fn gradients_async(
    gpu: &Gpu,
    dims: &Dims,
    config: &Config,
    inputs: &Inputs<'_, f32>,
    cache: Option<&Cache<f32>>,
    loss: &Loss<'_>,
    options: &Options,
) -> Result<Gradients<f32>> {
    inputs.check(dims, config, cache)?;
    loss.gate.check()?;
    if loss.d_o.len() != dims.value_len() {
        let expected = format!("{} values", dims.value_len());
        return Err(Error::input("op", "do", expected, loss.d_o.len()));
    }
    let forced = schedule::forced(dims, config, inputs, cache)?;
    let whole = Whole {
        dims,
        config,
        inputs,
        decisions: forced.as_deref(),
    };
    let (starts, trace) = forward(gpu, &whole, loss.gate.mode, cache, options).await?;
    let whole = Whole {
        decisions: Some(&trace.decisions),
        ..whole
    };
    let call = Call {
        whole,
        gpu,
        trace: &trace,
        loss,
        options,
    };
    let mut gradients = unpack::zeros(dims, inputs);
    let mut runner = None;
    let mut after: Option<(Piece, Vec<f32>)> = None;
    for (piece, start) in starts.iter().rev() {
        let d_states = after.take().filter(|(later, _)| later.batch == piece.batch);
        let d_states = d_states.map(|(_, d_states)| d_states);
        let before = call
            .piece(piece, start, d_states, &mut runner, &mut gradients)
            .await?;
        if piece.tokens.0 == 0 {
            let schedule = config.schedule;
            unpack::states(piece, dims, schedule, &before, &start.n, &mut gradients);
        }
        after = Some((*piece, before));
    }
    Ok(gradients)
}

/// [`gradients_async`], waiting for it.
///
/// # Errors
/// As [`gradients_async`].
#[cfg(not(target_arch = "wasm32"))]
pub fn gradients(
    gpu: &Gpu,
    dims: &Dims,
    config: &Config,
    inputs: &Inputs<'_, f32>,
    cache: Option<&Cache<f32>>,
    loss: &Loss<'_>,
    options: &Options,
) -> Result<Gradients<f32>> {
    gpu.block_on(gradients_async(
        gpu, dims, config, inputs, cache, loss, options,
    ))
}

/// The pieces of a call in order, each with the states that it starts from, and what was decided.
async fn forward(
    gpu: &Gpu,
    whole: &Whole<'_>,
    gate: GateMode,
    cache: Option<&Cache<f32>>,
    options: &Options,
) -> Result<(Vec<(Piece, Cache<f32>)>, Trace)> {
    let dims = whole.dims;
    let (items, tokens) = gradient_piece(gpu, whole, gate, options).await?;
    let mut output = Output {
        o: vec![0.0; dims.value_len()],
        trace: Trace::new(dims),
        cache: cache.cloned().unwrap_or_else(|| Cache::new(dims)),
    };
    let (mut starts, mut runner) = (Vec::new(), None);
    for piece in Piece::all(dims, items, tokens) {
        starts.push((piece, whole.take_cache(&piece, &output.cache)));
        whole
            .run_piece(gpu, &piece, options, &mut runner, &mut output)
            .await?;
    }
    Ok((starts, output.trace))
}

/// Batch items and tokens of a piece whose gradients fit too. What cannot run backwards is refused here, before anything
/// runs forwards.
async fn gradient_piece(
    gpu: &Gpu,
    whole: &Whole<'_>,
    gate: GateMode,
    options: &Options,
) -> Result<(usize, usize)> {
    // Gradients are f32 whatever the inputs are.
    let widest = Options {
        float: Float::F32,
        ..*options
    };
    let (mut items, tokens) = piece_size(gpu, whole.dims, &widest)?;
    loop {
        let shape = Dims {
            batch: items,
            tokens: tokens.min(whole.dims.tokens),
            ..*whole.dims
        };
        match Backward::new(gpu, &shape, whole.config, gate, options).await {
            Err(error) if error.is_unsupported() && items > 1 => items /= 2,
            Err(error) => return Err(error),
            Ok(_) => return Ok((items, tokens)),
        }
    }
}

/// A backward pass with its buffers, kept for pieces of one shape.
struct Runner {
    backward: Arc<Backward>,
    arrays: Arrays,
    start: DeviceCache,
    gradients: GradientArrays,
}

/// One call on its way back.
struct Call<'a> {
    whole: Whole<'a>,
    gpu: &'a Gpu,
    trace: &'a Trace,
    loss: &'a Loss<'a>,
    options: &'a Options,
}

impl Call<'_> {
    async fn runner(&self, dims: &Dims) -> Result<Runner> {
        let (gpu, config, options) = (self.gpu, self.whole.config, self.options);
        let backward =
            Arc::new(Backward::new(gpu, dims, config, self.loss.gate.mode, options).await?);
        let decider = Decider::Given { measure: false };
        let operator = Operator::new(gpu, dims, config, decider, options).await?;
        Ok(Runner {
            arrays: operator.arrays().await?,
            start: operator.cache().await?,
            gradients: backward.arrays().await?,
            backward,
        })
    }

    /// Adds a piece's gradients; takes those by the states after it (absent: zeros), gives those by the states before
    /// it, both in time order.
    async fn piece(
        &self,
        piece: &Piece,
        start: &Cache<f32>,
        d_states: Option<Vec<f32>>,
        kept: &mut Option<Runner>,
        into: &mut Gradients<f32>,
    ) -> Result<Vec<f32>> {
        let (gpu, whole) = (self.gpu, self.whole.dims);
        let dims = piece.dims(whole);
        if kept
            .as_ref()
            .is_none_or(|runner| runner.backward.plan().forward.dims != dims)
        {
            *kept = None;
            *kept = Some(self.runner(&dims).await?);
        }
        let Some(runner) = kept.as_ref() else {
            unreachable!("just made")
        };
        let d_states = d_states.unwrap_or_else(|| vec![0.0; dims.states_len()]);
        let bound = runner
            .backward
            .bind(&runner.arrays, &runner.start, &runner.gradients)
            .await?;
        let arrays = &runner.gradients;
        let wanted = [
            &arrays.d_q,
            &arrays.d_k,
            &arrays.d_v,
            &arrays.d_control,
            &arrays.d_tau,
            &arrays.d_states,
        ];
        let mut readbacks = Vec::with_capacity(wanted.len());
        for buffer in wanted {
            readbacks.push(Readback::new(gpu, buffer.size()).await?);
        }
        scoped(gpu.device(), "op", "call", || {
            self.upload(piece, start, &d_states, runner);
            let mut encoder = gpu
                .device()
                .create_command_encoder(&wgpu::CommandEncoderDescriptor { label: Some("dla") });
            bound.record(&mut encoder);
            for (readback, buffer) in readbacks.iter().zip(wanted) {
                readback.copy(&mut encoder, buffer);
            }
            gpu.queue().submit([encoder.finish()]);
        })
        .await?;
        // All are asked for before the first is waited for.
        let waiting: Vec<_> = readbacks.into_iter().map(Readback::bytes).collect();
        let mut values = Vec::with_capacity(waiting.len());
        for bytes in waiting {
            values.push(bytemuck::pod_collect_to_vec::<u8, f32>(&bytes.await?));
        }
        Ok(self.add(piece, start, values, into))
    }

    fn upload(&self, piece: &Piece, start: &Cache<f32>, d_states: &[f32], runner: &Runner) {
        let (whole, queue) = (self.whole.dims, self.gpu.queue());
        let Runner {
            arrays, gradients, ..
        } = runner;
        self.whole.upload(
            self.gpu,
            piece,
            self.options,
            (arrays, &runner.start),
            start,
        );
        let length = |b| self.whole.inputs.length(whole, b);
        let (schedule, decisions) = (self.whole.config.schedule, &self.trace.decisions);
        let mut records = pack::given_events(piece, whole, schedule, decisions, length, &start.n);
        pack::add_scores(piece, whole, &self.trace.score, &mut records);
        queue.write_buffer(&arrays.trace, 0, bytemuck::cast_slice(&records));
        let d_o = pack::floats(
            piece,
            self.loss.d_o,
            whole,
            whole.heads * whole.value_dim,
            Float::F32,
        );
        queue.write_buffer(&gradients.d_o, 0, &d_o);
        queue.write_buffer(&gradients.d_states, 0, bytemuck::cast_slice(d_states));
        let theta = [self.loss.gate.theta as f32, 0.0, 0.0, 0.0];
        queue.write_buffer(&gradients.theta, 0, bytemuck::cast_slice(&theta));
    }

    /// Puts what was read back where it belongs; gives the gradients by the states before the piece.
    fn add(
        &self,
        piece: &Piece,
        start: &Cache<f32>,
        values: Vec<Vec<f32>>,
        into: &mut Gradients<f32>,
    ) -> Vec<f32> {
        let whole = self.whole.dims;
        let dims = piece.dims(whole);
        let keys = whole.groups * whole.key_dim;
        let [d_q, d_k, d_v, d_control, d_tau, mut d_states] = <[Vec<f32>; 6]>::try_from(values)
            .unwrap_or_else(|_| unreachable!("six were asked for"));
        pack::scatter(piece, &d_q, &mut into.q, whole, keys);
        pack::scatter(piece, &d_k, &mut into.k, whole, keys);
        pack::scatter(
            piece,
            &d_v,
            &mut into.v,
            whole,
            whole.heads * whole.value_dim,
        );
        let schedule = self.whole.config.schedule;
        unpack::control(piece, whole, schedule, &d_control, &start.n, into);
        for (sum, x) in into.tau.iter_mut().zip(d_tau) {
            *sum += x;
        }
        d_states.truncate(dims.states_len());
        d_states
    }
}
