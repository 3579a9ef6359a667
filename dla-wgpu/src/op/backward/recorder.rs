//! The backward pass for one shape: pipelines, workspace, and the recording of a call.

use std::sync::Arc;

use dla_core::dla::gate::GateMode;
use dla_core::{Config, Dims, Error, Result, Schedule};

use super::passes::{call_passes, reaches_tau, segment_passes};
use super::snapshot::{Snapshot, is_deciding};
use crate::Gpu;
use crate::backward_plan::BackwardPlan;
use crate::op::binding::{
    Named, PARAMS_STRIDE, Step, bind_step, compiled, params, sized, whole, workspace,
};
use crate::op::operator::named;
use crate::op::options::Options;
use crate::op::passes::state_passes;
use crate::op::{Arrays, DeviceCache};
use crate::plan::{Segment, grid};
use crate::profile::Profile;
use crate::scope::scoped;
use crate::spec::{Float, Spec};
use crate::way::Way;

/// What a backward pass reads and writes beside the operator's arrays; shapes as in
/// [`GradientBytes`](crate::backward_plan::GradientBytes).
#[derive(Clone, Debug)]
pub struct GradientArrays {
    /// By the outputs; read.
    pub d_o: wgpu::Buffer,
    /// By the queries.
    pub d_q: wgpu::Buffer,
    /// By the keys.
    pub d_k: wgpu::Buffer,
    /// By the values.
    pub d_v: wgpu::Buffer,
    /// By g, β and λ by rank.
    pub d_control: wgpu::Buffer,
    /// By the states in time order: those after the call before, those that it started from afterwards.
    pub d_states: wgpu::Buffer,
    /// By the thresholds; zeros where the gate is hard or the schedule reads none.
    pub d_tau: wgpu::Buffer,
    /// θ, f32, a uniform buffer of 16 bytes; read.
    pub theta: wgpu::Buffer,
}

/// The backward pass for one shape.
///
/// It follows the decisions in `trace`, whoever made them, and the states that the call started from.
#[derive(Debug)]
pub struct Backward {
    gpu: Gpu,
    plan: BackwardPlan,
    forward: Vec<Step>,
    segment: Vec<Step<BackwardPlan>>,
    call: Vec<Step<BackwardPlan>>,
    workspace: Vec<(&'static str, wgpu::Buffer)>,
    params: wgpu::Buffer,
    /// The states on their way through the segments.
    cache: DeviceCache,
    /// What each segment but the last is run again from.
    snapshots: Vec<Snapshot>,
}

impl Backward {
    /// Plans, compiles and allocates for one shape.
    ///
    /// # Errors
    /// [`Error::is_input`] for settings that do not fit, [`Error::is_unsupported`] for what this device cannot do and
    /// for the soft gate, [`Error::is_device`] where the device fails.
    pub async fn new(
        gpu: &Gpu,
        dims: &Dims,
        config: &Config,
        gate: GateMode,
        options: &Options,
    ) -> Result<Self> {
        config.check()?;
        supported(gpu, config, gate, options.float)?;
        let limits = options.limits(gpu);
        let chunk = options.chunk();
        let plan = BackwardPlan::new(*dims, config.backbone, chunk, options.float, limits)?;
        let spec = Spec {
            dims: *dims,
            config: *config,
            chunk,
            float: options.float,
            replay: true,
            measure: false,
            slice: plan.forward.slice,
            subgroup: gpu.variant().subgroup.max(1),
            unroll: !gpu.is_software(),
        };
        let header = spec.header();
        let gate = reaches_tau(config.schedule, gate);
        let forward = compiled(gpu, state_passes(&spec, gpu.variant()), &header).await?;
        let segment = compiled(gpu, segment_passes(&spec, gate), &header).await?;
        let call = compiled(gpu, call_passes(gate), &header).await?;
        let mut buffers = workspace(gpu, &plan.forward.workspace.each()).await?;
        buffers.extend(workspace(gpu, &plan.workspace.each()).await?);
        let mut snapshots = Vec::new();
        for _ in 1..plan.forward.segments.len() {
            snapshots.push(Snapshot::new(gpu, &plan).await?);
        }
        Ok(Self {
            gpu: gpu.clone(),
            forward,
            segment,
            call,
            workspace: buffers,
            params: params(gpu, &plan.forward).await?,
            cache: cache(gpu, &plan).await?,
            snapshots,
            plan,
        })
    }

    /// The plan that this backward pass follows.
    pub fn plan(&self) -> &BackwardPlan {
        &self.plan
    }

    /// A buffer of the workspace by its name, to look at what a pass left there; it holds one segment at a time.
    pub fn workspace(&self, name: &str) -> Option<&wgpu::Buffer> {
        let mut buffers = self.workspace.iter();
        buffers
            .find(|(known, _)| *known == name)
            .map(|(_, buffer)| buffer)
    }

    /// Allocates the arrays of gradients, zeros.
    pub async fn arrays(&self) -> Result<GradientArrays> {
        let usage = wgpu::BufferUsages::STORAGE
            | wgpu::BufferUsages::COPY_DST
            | wgpu::BufferUsages::COPY_SRC;
        let uniform = wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST;
        let (gpu, bytes) = (&self.gpu, &self.plan.arrays);
        Ok(GradientArrays {
            d_o: gpu.buffer("d_o", bytes.value, usage).await?,
            d_q: gpu.buffer("d_q", bytes.key, usage).await?,
            d_k: gpu.buffer("d_k", bytes.key, usage).await?,
            d_v: gpu.buffer("d_v", bytes.value, usage).await?,
            d_control: gpu.buffer("d_control", bytes.control, usage).await?,
            d_states: gpu.buffer("d_states", bytes.states, usage).await?,
            d_tau: gpu.buffer("d_tau", bytes.tau, usage).await?,
            theta: gpu.buffer("theta", 16, uniform).await?,
        })
    }

    /// Ties the arrays of a call, the states `start` that it began with, and arrays of gradients to the passes.
    ///
    /// # Errors
    /// [`Error::is_input`] when a buffer is smaller than the plan's size for it.
    pub async fn bind(
        self: &Arc<Self>,
        arrays: &Arrays,
        start: &DeviceCache,
        gradients: &GradientArrays,
    ) -> Result<BoundBackward> {
        named(&self.plan.forward, arrays, start)?;
        let mut names = named(&self.plan.forward, arrays, &self.cache)?;
        names.extend(self.gradients(gradients)?);
        names.extend(whole(&self.workspace));
        scoped(self.gpu.device(), "op", "buffers", || BoundBackward {
            backward: Arc::clone(self),
            start: start.clone(),
            d_tau: gradients.d_tau.clone(),
            forward: self.bind_all(&self.forward, &names),
            segment: self.bind_all(&self.segment, &names),
            call: self.bind_all(&self.call, &names),
        })
        .await
    }

    fn gradients<'a>(&self, arrays: &'a GradientArrays) -> Result<Vec<Named<'a>>> {
        let bytes = &self.plan.arrays;
        sized(&[
            ("d_o", &arrays.d_o, 0, bytes.value),
            ("d_q", &arrays.d_q, 0, bytes.key),
            ("d_k", &arrays.d_k, 0, bytes.key),
            ("d_v", &arrays.d_v, 0, bytes.value),
            ("d_control", &arrays.d_control, 0, bytes.control),
            ("d_states", &arrays.d_states, 0, bytes.states),
            ("d_tau", &arrays.d_tau, 0, bytes.tau),
            ("gate", &arrays.theta, 0, 16),
        ])
    }

    fn bind_all<P>(&self, steps: &[Step<P>], names: &[Named<'_>]) -> Vec<wgpu::BindGroup> {
        let bind = |step: &Step<P>| bind_step(&self.gpu, &self.params, &step.pipeline, names);
        steps.iter().map(bind).collect()
    }
}

/// A backward pass with its buffers: records calls.
#[derive(Debug)]
pub struct BoundBackward {
    backward: Arc<Backward>,
    start: DeviceCache,
    d_tau: wgpu::Buffer,
    forward: Vec<wgpu::BindGroup>,
    segment: Vec<wgpu::BindGroup>,
    call: Vec<wgpu::BindGroup>,
}

impl BoundBackward {
    /// Records the call into the caller's encoder. Never submits, never waits.
    pub fn record(&self, encoder: &mut wgpu::CommandEncoder) {
        self.record_profiled(encoder, None);
    }

    /// Records the call with the time of every pass.
    pub fn record_profiled(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        mut profile: Option<&mut Profile>,
    ) {
        let Backward {
            plan,
            forward,
            segment,
            call,
            cache,
            snapshots,
            ..
        } = &*self.backward;
        copy(encoder, &self.start, cache);
        encoder.clear_buffer(&self.d_tau, 0, Some(plan.arrays.tau));
        let segments = &plan.forward.segments;
        let forwards = || forward.iter().zip(&self.forward);
        for (index, segment) in segments.iter().enumerate() {
            let place = Place::new(&plan.forward, segment, index);
            if let Some(snapshot) = snapshots.get(index) {
                self.copy_states(encoder, snapshot, Way::Keep);
            }
            place.record(encoder, profile.as_deref_mut(), forwards());
            if let Some(snapshot) = snapshots.get(index) {
                self.copy_decided(encoder, snapshot, Way::Keep);
            }
        }
        for (index, part) in segments.iter().enumerate().rev() {
            if let Some(snapshot) = snapshots.get(index) {
                self.copy_states(encoder, snapshot, Way::Restore);
                self.copy_decided(encoder, snapshot, Way::Restore);
                let place = Place::new(&plan.forward, part, index);
                let again = forwards().filter(|(step, _)| !is_deciding(step));
                place.record(encoder, profile.as_deref_mut(), again);
            }
            let place = Place::new(plan, part, index);
            let own = segment.iter().zip(&self.segment);
            place.record(encoder, profile.as_deref_mut(), own);
            if index == 0 {
                place.record(encoder, profile.as_deref_mut(), call.iter().zip(&self.call));
            }
        }
    }

    /// Records a snapshot's states, or takes them back.
    fn copy_states(&self, encoder: &mut wgpu::CommandEncoder, snapshot: &Snapshot, way: Way) {
        snapshot.copy_states(encoder, &self.backward.cache.states, way);
    }

    /// The same of what followed from decisions alone.
    fn copy_decided(&self, encoder: &mut wgpu::CommandEncoder, snapshot: &Snapshot, way: Way) {
        snapshot.copy_decided(encoder, |name| self.backward.workspace(name), way);
    }

    /// The kinds of passes of a call, in the order in which they first run.
    pub fn names(&self) -> Vec<&'static str> {
        let Backward {
            forward,
            segment,
            call,
            ..
        } = &*self.backward;
        let again = forward.iter().map(|step| step.pipeline.name);
        let own = segment.iter().chain(call).map(|step| step.pipeline.name);
        again.chain(own).collect()
    }

    /// Passes that one call records.
    pub fn passes(&self) -> usize {
        let Backward {
            plan,
            forward,
            segment,
            call,
            snapshots,
            ..
        } = &*self.backward;
        let segments = plan.forward.segments.len();
        let again = forward.iter().filter(|step| !is_deciding(step)).count();
        segments * (forward.len() + segment.len()) + snapshots.len() * again + call.len()
    }
}

/// A segment of a plan, and its number.
struct Place<'a, P> {
    plan: &'a P,
    segment: &'a Segment,
    index: usize,
}

impl<'a, P> Place<'a, P> {
    fn new(plan: &'a P, segment: &'a Segment, index: usize) -> Self {
        Self {
            plan,
            segment,
            index,
        }
    }

    fn record<'s>(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        mut profile: Option<&mut Profile>,
        steps: impl Iterator<Item = (&'s Step<P>, &'s wgpu::BindGroup)>,
    ) where
        P: 's,
    {
        let offset = (self.index as u64 * PARAMS_STRIDE) as u32;
        let mut shared = None;
        for (step, group) in steps {
            let (x, y) = grid((step.groups)(self.plan, self.segment));
            let pass = match profile.as_deref_mut() {
                Some(profile) => &mut profile.pass(encoder, step.pipeline.name),
                None => shared.get_or_insert_with(|| {
                    encoder
                        .begin_compute_pass(&wgpu::ComputePassDescriptor {
                            label: Some("dla backward"),
                            timestamp_writes: None,
                        })
                        .forget_lifetime()
                }),
            };
            pass.set_pipeline(&step.pipeline.compute);
            pass.set_bind_group(0, group, &[offset]);
            pass.dispatch_workgroups(x, y, 1);
        }
    }
}

fn supported(gpu: &Gpu, config: &Config, gate: GateMode, float: Float) -> Result<()> {
    if gate == GateMode::Soft && config.schedule == Schedule::Dynamic {
        return Err(
            Error::unsupported("op", "gate", "hard|straight-through", "soft")
                .advise("the soft recurrence runs on the CPU"),
        );
    }
    if float == Float::F16 && !gpu.variant().f16 {
        return Err(
            Error::unsupported("op", "float", "f32 on this device", "f16")
                .advise("the device lacks shader-f16; f32 computes the same"),
        );
    }
    Ok(())
}

async fn cache(gpu: &Gpu, plan: &BackwardPlan) -> Result<DeviceCache> {
    let usage =
        wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::COPY_SRC;
    let bytes = &plan.forward.arrays;
    Ok(DeviceCache {
        states: gpu.buffer("states", bytes.states, usage).await?,
        scalars: gpu.buffer("scalars", bytes.scalars, usage).await?,
    })
}

/// Records a copy of all states; `to` has a plan's sizes, `from` at least those.
fn copy(encoder: &mut wgpu::CommandEncoder, from: &DeviceCache, to: &DeviceCache) {
    for (from, to) in [(&from.states, &to.states), (&from.scalars, &to.scalars)] {
        encoder.copy_buffer_to_buffer(from, 0, to, 0, to.size());
    }
}
