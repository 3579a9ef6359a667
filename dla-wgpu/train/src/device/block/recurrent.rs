//! The mixers around the operator: their arrays, the operator, their output, and the way back.

use std::sync::Arc;

use dla_core::dla::gate::GateMode;
use dla_core::dla::schedule;
use dla_core::model::ModelConfig;
use dla_core::{Dims, Result, Schedule};
use dla_wgpu::nn::backward::{
    ArrayGradients, ColumnSums, ColumnSumsSpec, DecayRates, ReadWeightsGradient,
    ReadWeightsGradientSpec,
};
use dla_wgpu::nn::{self, Sources};
use dla_wgpu::op::{self, Backward, Decider, DeviceCache, GradientArrays, Operator, Options};
use dla_wgpu::plan::MAX_BATCH;
use dla_wgpu::{Dispatch, Gpu};

use super::super::layout::RecurrentPlaces;
use super::super::parameters::Which;
use super::super::shared;
use super::super::work::{Work, dispatched};
use super::call::{Call, Kept};

/// What a family of mixers does around the operator.
pub(super) trait Form: Copy {
    /// Arrays by head that it trains: Δ's bias, A_log, and others.
    const HEADS: usize;

    /// What the operator takes, into `to`.
    async fn arrays(
        &self,
        call: &Call<'_>,
        parts: &Parts<'_>,
        sources: &Sources<'_>,
        to: &op::Arrays,
    ) -> Result<Vec<Dispatch>>;

    /// What is made of the operator's output, into `y`.
    async fn output(&self, call: &Call<'_>, parts: &Parts<'_>) -> Result<Vec<Dispatch>>;

    /// `d_y` from after the output to before it.
    async fn output_backward(&self, call: &Call<'_>, parts: &Parts<'_>) -> Result<Vec<Dispatch>>;

    /// From the operator's gradients to those by the convolution's output and by heads.
    async fn arrays_backward(
        &self,
        call: &Call<'_>,
        parts: &Parts<'_>,
        given: ArrayGradients<'_>,
    ) -> Result<Vec<Dispatch>>;
}

/// What a form's passes read and write in a block.
pub(super) struct Parts<'a> {
    pub(super) kept: &'a Kept,
    /// The operator's output.
    pub(super) o: &'a wgpu::Buffer,
    /// What the form makes of it.
    pub(super) y: &'a wgpu::Buffer,
    /// Heads as the form takes them, `[HEADS, heads]`.
    pub(super) heads: &'a wgpu::Buffer,
    pub(super) d_heads: &'a wgpu::Buffer,
    pub(super) read_weights: Option<&'a wgpu::Buffer>,
    pub(super) out_norm: &'a wgpu::Buffer,
    pub(super) d_out_norm: &'a wgpu::Buffer,
}

/// What the operators of all blocks share.
#[derive(Debug)]
pub(in crate::device) struct Shared {
    dims: Dims,
    /// Without the outputs and the trace, which each block has for itself.
    arrays: op::Arrays,
    cache: DeviceCache,
    start: DeviceCache,
    operator: Operator,
    backward: Arc<Backward>,
    gradients: GradientArrays,
    positions: wgpu::Buffer,
    /// What mixers make of the operator's output, `[rows, values]`.
    y: wgpu::Buffer,
    /// Events that the schedule fixes beforehand, for every block; none where scores decide.
    events: Option<Vec<u32>>,
}

/// A block's mixer.
#[derive(Debug)]
pub(super) struct Recurrent<F> {
    form: F,
    all: Arc<Shared>,
    places: RecurrentPlaces,
    kept: Kept,
    /// The operator's arrays: outputs, thresholds and trace are this block's own.
    arrays: op::Arrays,
    heads: wgpu::Buffer,
    /// τ, where it learns.
    tau: Option<usize>,
}

impl Shared {
    pub(super) async fn new(
        gpu: &Gpu,
        config: &ModelConfig,
        gate: GateMode,
        shared: &shared::Shared,
    ) -> Result<Self> {
        let settings = config.operator();
        let dims = Dims {
            batch: shared.rows.batch,
            tokens: shared.rows.tokens,
            ..config.dims()
        };
        let decider = match settings.schedule {
            Schedule::Dynamic => Decider::Scores,
            _ => Decider::Given { measure: false },
        };
        let options = Options {
            float: shared.float,
            ..Options::default()
        };
        let operator = Operator::new(gpu, &dims, &settings, decider, &options).await?;
        let backward = Arc::new(Backward::new(gpu, &dims, &settings, gate, &options).await?);
        let arrays = op::Arrays {
            lengths: shared.lengths.clone(),
            ..operator.arrays().await?
        };
        let gradients = GradientArrays {
            d_o: shared.d_y.clone(),
            ..backward.arrays().await?
        };
        Ok(Self {
            dims,
            cache: operator.cache().await?,
            start: operator.cache().await?,
            positions: nn::uniform(gpu, "positions", MAX_BATCH).await?,
            y: nn::buffer(gpu, "y", shared.rows.count()? * dims.heads * dims.value_dim).await?,
            events: events(config, &dims)?,
            arrays,
            operator,
            backward,
            gradients,
        })
    }

    pub(super) fn theta(&self) -> &wgpu::Buffer {
        &self.gradients.theta
    }
}

impl<F: Form> Recurrent<F> {
    pub(super) async fn new(
        gpu: &Gpu,
        form: F,
        all: Arc<Shared>,
        places: RecurrentPlaces,
        kept: Kept,
    ) -> Result<Self> {
        let bytes = &all.operator.plan().arrays;
        let trace = nn::buffer(gpu, "trace", (bytes.trace / 4) as usize).await?;
        if let Some(events) = &all.events {
            gpu.queue()
                .write_buffer(&trace, 0, bytemuck::cast_slice(events));
        }
        let heads = all.dims.heads;
        let arrays = op::Arrays {
            o: nn::buffer(gpu, "o", bytes.value.div_ceil(4) as usize).await?,
            trace,
            tau: nn::uniform(gpu, "tau", heads.next_multiple_of(4)).await?,
            ..all.arrays.clone()
        };
        let largest = vec![f32::MAX; heads.next_multiple_of(4)];
        gpu.queue()
            .write_buffer(&arrays.tau, 0, bytemuck::cast_slice(&largest));
        Ok(Self {
            form,
            heads: nn::buffer(gpu, "heads", F::HEADS * heads).await?,
            tau: places.tau.filter(|_| all.events.is_none()),
            all,
            places,
            kept,
            arrays,
        })
    }

    pub(super) fn output(&self) -> &wgpu::Buffer {
        &self.all.y
    }

    pub(super) async fn forward(&self, call: &Call<'_>) -> Result<Vec<Work>> {
        let (gpu, all) = (call.gpu, &self.all);
        let value = |place| call.parameters.vector(place, Which::Value);
        let rates = DecayRates {
            heads: all.dims.heads,
            arrays: F::HEADS,
        };
        let trained = value(self.places.heads);
        let mut work = dispatched(rates.prepare(gpu, trained, &self.heads).await?);
        if let Some(tau) = self.tau {
            let bytes = all.dims.heads as u64 * 4;
            let (from, to) = (value(tau).clone(), self.arrays.tau.clone());
            work.push(Work::Copy(from, to, bytes));
        }
        work.extend(self.operator_arrays(call).await?);
        work.push(Work::Clear(all.cache.scalars.clone()));
        let operator = all.operator.bind(&self.arrays, &all.cache).await?;
        work.extend(dispatched(operator.dispatches().to_vec()));
        work.extend(self.output_made(call).await?);
        Ok(work)
    }

    /// What the mixer makes of the operator's output, into `y`.
    pub(super) async fn output_made(&self, call: &Call<'_>) -> Result<Vec<Work>> {
        Ok(dispatched(self.form.output(call, &self.parts(call)).await?))
    }

    pub(super) async fn backward(&self, call: &Call<'_>) -> Result<Vec<Work>> {
        let (all, parts) = (&self.all, self.parts(call));
        let mut work = dispatched(self.form.output_backward(call, &parts).await?);
        work.extend(self.operator_arrays(call).await?);
        work.push(Work::Clear(all.gradients.d_states.clone()));
        let bound = all
            .backward
            .bind(&self.arrays, &all.start, &all.gradients)
            .await?;
        work.push(Work::Backward(Box::new(bound)));
        work.extend(dispatched(self.read_backward(call).await?));
        let given = ArrayGradients {
            q: &all.gradients.d_q,
            k: &all.gradients.d_k,
            v: &all.gradients.d_v,
            control: &all.gradients.d_control,
        };
        let arrays = self.form.arrays_backward(call, &parts, given).await?;
        work.extend(dispatched(arrays));
        Ok(work)
    }

    /// From the operator's gradients to those by λ's weights and τ.
    async fn read_backward(&self, call: &Call<'_>) -> Result<Vec<Dispatch>> {
        let (gpu, shared, all) = (call.gpu, call.shared, &self.all);
        let gradient = |place| call.parameters.vector(place, Which::Gradient);
        let mut dispatches = Vec::new();
        if let (Some(place), Some(column)) = (self.places.read, shared.specs.lambda.column) {
            let read = ReadWeightsGradient {
                spec: ReadWeightsGradientSpec {
                    dims: all.dims,
                    stride: shared.specs.stride,
                    column,
                    fenwick: shared.specs.lambda.fenwick,
                },
                read_weights: call.parameters.vector(place, Which::Value),
                scratch: &shared.scratch,
                terms: &shared.terms,
            };
            let d_control = &all.gradients.d_control;
            let from = [&all.positions, &self.kept.projected, d_control];
            let to = &shared.d_projected;
            let read = read.prepare(gpu, shared.rows, from, to, gradient(place));
            dispatches.extend(read.await?);
        }
        if let Some(tau) = self.tau {
            let sums = ColumnSums {
                spec: ColumnSumsSpec::all(all.dims.heads),
                scratch: &shared.scratch,
            };
            let sums = sums.prepare(gpu, 1, &all.gradients.d_tau, (gradient(tau), 0));
            dispatches.extend(sums.await?);
        }
        Ok(dispatches)
    }

    /// What the operator takes, into the arrays that all blocks share.
    async fn operator_arrays(&self, call: &Call<'_>) -> Result<Vec<Work>> {
        let sources = Sources {
            mixed: &self.kept.mixed,
            projected: &self.kept.projected,
            positions: &self.all.positions,
        };
        let parts = self.parts(call);
        let arrays = self.form.arrays(call, &parts, &sources, &self.arrays);
        Ok(dispatched(arrays.await?))
    }

    fn parts<'a>(&'a self, call: &Call<'a>) -> Parts<'a> {
        let vector = |place, which| call.parameters.vector(place, which);
        let places = &self.places;
        Parts {
            kept: &self.kept,
            o: &self.arrays.o,
            y: &self.all.y,
            heads: &self.heads,
            d_heads: vector(places.heads, Which::Gradient),
            read_weights: places.read.map(|place| vector(place, Which::Value)),
            out_norm: vector(places.out_norm, Which::Value),
            d_out_norm: vector(places.out_norm, Which::Gradient),
        }
    }
}

/// The events of a call from new states on, where the schedule looks at positions only.
fn events(config: &ModelConfig, dims: &Dims) -> Result<Option<Vec<u32>>> {
    let settings = config.operator();
    if settings.schedule == Schedule::Dynamic {
        return Ok(None);
    }
    schedule::check_levels(settings.schedule, dims.capacity, dims.tokens as u64)?;
    let (decisions, _) = schedule::decide(dims, &settings, None, None)?;
    Ok(Some(op::events(dims, settings.schedule, &decisions)))
}
