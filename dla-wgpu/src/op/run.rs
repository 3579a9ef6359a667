//! The whole journey for arrays in memory: cut into pieces that fit the device, upload, run, read back.

use dla_core::dla::schedule;
use dla_core::{Cache, Config, Decisions, Dims, Error, Inputs, Output, Result, Schedule, Trace};

use super::operator::{Arrays, DeviceCache, Operator};
use super::options::{Decider, Options};
use super::pack::{self, Piece, finite_threshold};
use crate::plan::{MAX_BATCH, Plan};
use crate::scope::scoped;
use crate::{Gpu, Readback};

/// Runs the operator on the device. Never blocks the thread.
///
/// Same arguments and answers as the reference; sequences of any length are cut into calls whose
/// arrays the device can bind, with the states carried from one to the next.
///
/// On native somebody must poll the device meanwhile; [`run`] does both.
///
/// # Errors
/// As [`Operator::new`], and [`Error::is_input`] for arrays that do not fit `dims`.
pub async fn run_async(
    gpu: &Gpu,
    dims: &Dims,
    config: &Config,
    inputs: &Inputs<'_, f32>,
    cache: Option<&Cache<f32>>,
    options: &Options,
) -> Result<Output<f32>> {
    inputs.check(dims, config, cache)?;
    let forced = schedule::forced(dims, config, inputs, cache)?;
    let whole = Whole {
        dims,
        config,
        inputs,
        decisions: forced.as_deref(),
    };
    let mut output = Output {
        o: vec![0.0; dims.value_len()],
        trace: Trace::new(dims),
        cache: cache.cloned().unwrap_or_else(|| Cache::new(dims)),
    };
    let (items, tokens) = piece_size(gpu, dims, options)?;
    let mut runner = None;
    for piece in Piece::all(dims, items, tokens) {
        whole
            .run_piece(gpu, &piece, options, &mut runner, &mut output)
            .await?;
    }
    Ok(output)
}

/// [`run_async`], waiting for it.
#[cfg(not(target_arch = "wasm32"))]
pub fn run(
    gpu: &Gpu,
    dims: &Dims,
    config: &Config,
    inputs: &Inputs<'_, f32>,
    cache: Option<&Cache<f32>>,
    options: &Options,
) -> Result<Output<f32>> {
    gpu.block_on(run_async(gpu, dims, config, inputs, cache, options))
}

/// Batch items and tokens of one piece.
pub(super) fn piece_size(gpu: &Gpu, dims: &Dims, options: &Options) -> Result<(usize, usize)> {
    let limits = options.limits(gpu);
    let one_cache = (dims.heads * dims.capacity * dims.state_len()) as u64 * 4;
    let items =
        (limits.max_binding / one_cache.max(1)).clamp(1, MAX_BATCH.min(dims.batch) as u64) as usize;
    // Fewer items rather than pieces shorter than a chunk.
    for items in std::iter::successors(Some(items), |&n| (n > 1).then_some(n / 2)) {
        let shape = Dims {
            batch: items,
            ..*dims
        };
        let tokens = Plan::tokens_per_call(&shape, options.chunk(), options.float, limits);
        if tokens > 0 {
            return Ok((items, tokens));
        }
    }
    Err(Error::unsupported(
        "op",
        "dims",
        format!(
            "one chunk of one sequence within {} bytes, the device's largest binding",
            limits.max_binding
        ),
        format!("{dims:?}"),
    ))
}

/// A call that is run in pieces.
#[derive(Clone, Copy)]
pub(super) struct Whole<'a> {
    pub(super) dims: &'a Dims,
    pub(super) config: &'a Config,
    pub(super) inputs: &'a Inputs<'a, f32>,
    pub(super) decisions: Option<&'a Decisions>,
}

/// An operator with its buffers, kept for pieces of one shape.
pub(super) struct Runner {
    operator: Operator,
    arrays: Arrays,
    cache: DeviceCache,
}

impl Runner {
    async fn new(
        gpu: &Gpu,
        dims: &Dims,
        config: &Config,
        decider: Decider,
        options: &Options,
    ) -> Result<Self> {
        let operator = Operator::new(gpu, dims, config, decider, options).await?;
        let arrays = operator.arrays().await?;
        let cache = operator.cache().await?;
        Ok(Self {
            operator,
            arrays,
            cache,
        })
    }
}

impl Whole<'_> {
    fn decider(&self) -> Decider {
        match self.decisions {
            None => Decider::Scores,
            Some(_) => Decider::Given {
                measure: self.config.schedule == Schedule::Dynamic,
            },
        }
    }

    /// Runs one piece, from the caches in `output` on.
    pub(super) async fn run_piece(
        &self,
        gpu: &Gpu,
        piece: &Piece,
        options: &Options,
        kept: &mut Option<Runner>,
        output: &mut Output<f32>,
    ) -> Result<()> {
        let dims = piece.dims(self.dims);
        if kept
            .as_ref()
            .is_none_or(|runner| runner.operator.plan().dims != dims)
        {
            *kept = None;
            *kept = Some(Runner::new(gpu, &dims, self.config, self.decider(), options).await?);
        }
        let Some(runner) = kept.as_ref() else {
            unreachable!("just made")
        };
        let bound = runner.operator.bind(&runner.arrays, &runner.cache).await?;
        let bytes = &runner.operator.plan().arrays;
        let o = Readback::new(gpu, bytes.value).await?;
        let trace = Readback::new(gpu, bytes.trace).await?;
        let states = Readback::new(gpu, bytes.states).await?;
        let scalars = Readback::new(gpu, bytes.scalars).await?;
        scoped(gpu.device(), "op", "call", || {
            let start = self.take_cache(piece, &output.cache);
            let buffers = (&runner.arrays, &runner.cache);
            self.upload(gpu, piece, options, buffers, &start);
            let mut encoder = gpu
                .device()
                .create_command_encoder(&wgpu::CommandEncoderDescriptor { label: Some("dla") });
            bound.record(&mut encoder);
            o.copy(&mut encoder, &runner.arrays.o);
            trace.copy(&mut encoder, &runner.arrays.trace);
            states.copy(&mut encoder, &runner.cache.states);
            scalars.copy(&mut encoder, &runner.cache.scalars);
            gpu.queue().submit([encoder.finish()]);
        })
        .await?;
        let (o, trace, states, scalars) =
            (o.bytes(), trace.bytes(), states.bytes(), scalars.bytes());
        let o = pack::widened(&o.await?, options.float);
        pack::scatter(
            piece,
            &o,
            &mut output.o,
            self.dims,
            self.dims.heads * self.dims.value_dim,
        );
        let length = |b| self.inputs.length(self.dims, b);
        let records: Vec<u32> = bytemuck::pod_collect_to_vec(&trace.await?);
        pack::trace_from_device(piece, self.dims, &records, length, &mut output.trace);
        let states: Vec<f32> = bytemuck::pod_collect_to_vec(&states.await?);
        let scalars: Vec<u32> = bytemuck::pod_collect_to_vec(&scalars.await?);
        let cache = pack::cache_from_device(&dims, self.config.schedule, &states, &scalars);
        self.put_cache(piece, cache, &mut output.cache);
        Ok(())
    }

    /// Writes a piece's arrays, and the caches that it starts from, to the device.
    pub(super) fn upload(
        &self,
        gpu: &Gpu,
        piece: &Piece,
        options: &Options,
        (arrays, device): (&Arrays, &DeviceCache),
        cache: &Cache<f32>,
    ) {
        let (whole, schedule) = (self.dims, self.config.schedule);
        let queue = gpu.queue();
        let dims = piece.dims(whole);
        let keys = whole.groups * whole.key_dim;
        let values = whole.heads * whole.value_dim;
        let float = options.float;
        queue.write_buffer(
            &arrays.q,
            0,
            &pack::floats(piece, self.inputs.q, whole, keys, float),
        );
        queue.write_buffer(
            &arrays.k,
            0,
            &pack::floats(piece, self.inputs.k, whole, keys, float),
        );
        queue.write_buffer(
            &arrays.v,
            0,
            &pack::floats(piece, self.inputs.v, whole, values, float),
        );
        let control = pack::control(piece, whole, schedule, self.inputs, &cache.n);
        queue.write_buffer(&arrays.control, 0, bytemuck::cast_slice(&control));
        let length = |b| self.inputs.length(whole, b);
        if let Some(decisions) = self.decisions {
            let events = pack::given_events(piece, whole, schedule, decisions, length, &cache.n);
            queue.write_buffer(&arrays.trace, 0, bytemuck::cast_slice(&events));
        }
        let tau = self.inputs.tau.iter().map(|&tau| finite_threshold(tau));
        let tau: Vec<f32> = tau.collect();
        queue.write_buffer(&arrays.tau, 0, bytemuck::cast_slice(&tau));
        let lengths: Vec<u32> = (piece.batch.0..piece.batch.1)
            .map(|b| piece.length(length(b)))
            .collect();
        queue.write_buffer(&arrays.lengths, 0, bytemuck::cast_slice(&lengths));
        let (states, scalars) = pack::cache_to_device(&dims, schedule, cache);
        queue.write_buffer(&device.states, 0, bytemuck::cast_slice(&states));
        queue.write_buffer(&device.scalars, 0, bytemuck::cast_slice(&scalars));
    }

    /// The caches of the piece's batch items.
    pub(super) fn take_cache(&self, piece: &Piece, whole: &Cache<f32>) -> Cache<f32> {
        let (first, end) = piece.batch;
        let entries = self.dims.heads * self.dims.capacity;
        let values = entries * self.dims.state_len();
        Cache {
            states: whole.states[first * values..end * values].to_vec(),
            n: whole.n[first * entries..end * entries].to_vec(),
            info: whole.info[first * entries..end * entries].to_vec(),
        }
    }

    fn put_cache(&self, piece: &Piece, part: Cache<f32>, whole: &mut Cache<f32>) {
        let (first, end) = piece.batch;
        let entries = self.dims.heads * self.dims.capacity;
        let values = entries * self.dims.state_len();
        whole.states[first * values..end * values].copy_from_slice(&part.states);
        whole.n[first * entries..end * entries].copy_from_slice(&part.n);
        whole.info[first * entries..end * entries].copy_from_slice(&part.info);
    }
}
