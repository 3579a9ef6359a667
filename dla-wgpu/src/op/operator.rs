//! The operator for one shape: pipelines, workspace, and the recording of a call.

use dla_core::{Config, Dims, Error, Result};

use std::sync::Arc;

use super::binding::{
    Named, PARAMS_STRIDE, Step, bind_step, compiled, params, sized, whole, workspace,
};
use super::options::{Decider, Options, Walk, weighs_matrices};
use super::passes::recorded;
use crate::Gpu;
use crate::dispatch::{self, Dispatch};
use crate::plan::{MAX_BATCH, Plan, grid};
use crate::profile::Profile;
use crate::scope::scoped;
use crate::spec::{Float, Spec};

/// The caller's arrays on the device; shapes as in [`ArrayBytes`](crate::plan::ArrayBytes).
///
/// Whatever they hold, no shader leaves its buffers; contents that no run could have left there give
/// meaningless results.
#[derive(Clone, Debug)]
pub struct Arrays {
    /// Queries.
    pub q: wgpu::Buffer,
    /// Keys.
    pub k: wgpu::Buffer,
    /// Values.
    pub v: wgpu::Buffer,
    /// g, β and λ by rank.
    pub control: wgpu::Buffer,
    /// Outputs.
    pub o: wgpu::Buffer,
    /// Scores and events.
    pub trace: wgpu::Buffer,
    /// Where this call's scores and events begin in `trace`, in bytes: a multiple of the device's
    /// `min_storage_buffer_offset_alignment`, so that many calls can share a buffer.
    pub trace_offset: u64,
    /// Thresholds, f32, a uniform buffer of whole 16-byte rows.
    pub tau: wgpu::Buffer,
    /// Tokens of each batch item, u32, a uniform buffer of 16 KiB.
    pub lengths: wgpu::Buffer,
}

/// The states on the device, between calls; zeros are an empty cache.
#[derive(Clone, Debug)]
pub struct DeviceCache {
    /// States by place.
    pub states: wgpu::Buffer,
    /// Count, then n, information and place of every state in time order.
    pub scalars: wgpu::Buffer,
}

/// The operator for one shape.
#[derive(Debug)]
pub struct Operator {
    gpu: Gpu,
    plan: Plan,
    steps: Vec<Step>,
    workspace: Vec<(&'static str, wgpu::Buffer)>,
    params: wgpu::Buffer,
}

impl Operator {
    /// How one shape is walked, and its plan; compiles and allocates nothing.
    ///
    /// # Errors
    /// As [`Operator::new`], without those of a device that fails.
    pub(crate) fn planned(
        gpu: &Gpu,
        dims: &Dims,
        config: &Config,
        decider: Decider,
        options: &Options,
    ) -> Result<(Walk, Plan)> {
        config.check()?;
        let walk = options.path.walk(dims, config, decider);
        supported(gpu, config, decider, options.float, walk)?;
        let limits = options.limits(gpu);
        let (backbone, float) = (config.backbone, options.float);
        let plan = match walk {
            Walk::Chunks => Plan::new(*dims, backbone, options.chunk(), float, limits)?,
            Walk::Steps => Plan::steps(*dims, backbone, float, limits)?,
            Walk::Step => Plan::step(*dims, backbone, float, limits)?,
        };
        Ok((walk, plan))
    }

    /// Plans, compiles and allocates for one shape.
    ///
    /// # Errors
    /// [`Error::is_input`] for settings that do not fit, [`Error::is_unsupported`] for what this device
    /// cannot do, [`Error::is_device`] where it fails.
    pub async fn new(
        gpu: &Gpu,
        dims: &Dims,
        config: &Config,
        decider: Decider,
        options: &Options,
    ) -> Result<Self> {
        let (walk, plan) = Self::planned(gpu, dims, config, decider, options)?;
        let float = options.float;
        let spec = Spec {
            dims: *dims,
            config: *config,
            chunk: plan.chunk,
            float,
            replay: decider != Decider::Scores,
            measure: decider != Decider::Given { measure: false },
            slice: plan.slice,
            subgroup: gpu.variant().subgroup.max(1),
            unroll: !gpu.is_software(),
        };
        let header = spec.header();
        let steps = compiled(gpu, recorded(&spec, gpu.variant(), walk), &header).await?;
        let workspace = workspace(gpu, &plan.workspace.each()).await?;
        let params = params(gpu, &plan).await?;
        Ok(Self {
            gpu: gpu.clone(),
            plan,
            steps,
            workspace,
            params,
        })
    }

    /// The plan that this operator follows.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Passes of one segment.
    pub fn passes(&self) -> usize {
        self.steps.len()
    }

    /// A buffer of the workspace by its name in [`WorkspaceBytes`](crate::plan::WorkspaceBytes), to look at what a
    /// pass left there; it holds one segment at a time and can be copied from.
    pub fn workspace(&self, name: &str) -> Option<&wgpu::Buffer> {
        let mut buffers = self.workspace.iter();
        buffers
            .find(|(known, _)| *known == name)
            .map(|(_, buffer)| buffer)
    }

    /// Allocates the caller's arrays.
    pub async fn arrays(&self) -> Result<Arrays> {
        let usage = wgpu::BufferUsages::STORAGE
            | wgpu::BufferUsages::COPY_DST
            | wgpu::BufferUsages::COPY_SRC;
        let uniform = wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST;
        let bytes = &self.plan.arrays;
        let gpu = &self.gpu;
        Ok(Arrays {
            q: gpu.buffer("q", bytes.key, usage).await?,
            k: gpu.buffer("k", bytes.key, usage).await?,
            v: gpu.buffer("v", bytes.value, usage).await?,
            control: gpu.buffer("control", bytes.control, usage).await?,
            o: gpu.buffer("o", bytes.value, usage).await?,
            trace: gpu.buffer("trace", bytes.trace, usage).await?,
            trace_offset: 0,
            tau: gpu
                .buffer("tau", self.plan.dims.heads.div_ceil(4) as u64 * 16, uniform)
                .await?,
            lengths: gpu.buffer("lengths", MAX_BATCH as u64 * 4, uniform).await?,
        })
    }

    /// Allocates an empty cache.
    pub async fn cache(&self) -> Result<DeviceCache> {
        let usage = wgpu::BufferUsages::STORAGE
            | wgpu::BufferUsages::COPY_DST
            | wgpu::BufferUsages::COPY_SRC;
        let bytes = &self.plan.arrays;
        Ok(DeviceCache {
            states: self.gpu.buffer("states", bytes.states, usage).await?,
            scalars: self.gpu.buffer("scalars", bytes.scalars, usage).await?,
        })
    }

    /// Ties arrays and a cache to the passes.
    ///
    /// # Errors
    /// [`Error::is_input`] when a buffer is smaller than the plan's size for it.
    pub async fn bind(&self, arrays: &Arrays, cache: &DeviceCache) -> Result<Bound> {
        let mut named = named(&self.plan, arrays, cache)?;
        named.extend(whole(&self.workspace));
        let groups: Vec<_> = scoped(self.gpu.device(), "op", "buffers", || {
            self.steps
                .iter()
                .map(|step| bind_step(&self.gpu, &self.params, &step.pipeline, &named))
                .collect()
        })
        .await?;
        let segments = self.plan.segments.iter().enumerate();
        let dispatches = segments.flat_map(|(index, segment)| {
            let steps = self.steps.iter().zip(&groups);
            steps.map(move |(step, group)| Dispatch {
                pipeline: Arc::clone(&step.pipeline),
                group: group.clone(),
                offset: (index as u64 * PARAMS_STRIDE) as u32,
                grid: grid((step.groups)(&self.plan, segment)),
            })
        });
        Ok(Bound {
            dispatches: dispatches.collect(),
        })
    }
}

/// The caller's buffers by the names that passes give them.
///
/// # Errors
/// [`Error::is_input`] when one is smaller than the plan's size for it.
pub(super) fn named<'a>(
    plan: &Plan,
    arrays: &'a Arrays,
    cache: &'a DeviceCache,
) -> Result<Vec<Named<'a>>> {
    let bytes = &plan.arrays;
    sized(&[
        ("q", &arrays.q, 0, bytes.key),
        ("k", &arrays.k, 0, bytes.key),
        ("v", &arrays.v, 0, bytes.value),
        ("control", &arrays.control, 0, bytes.control),
        ("o", &arrays.o, 0, bytes.value),
        ("trace", &arrays.trace, arrays.trace_offset, bytes.trace),
        (
            "thresholds",
            &arrays.tau,
            0,
            plan.dims.heads.div_ceil(4) as u64 * 16,
        ),
        ("lengths", &arrays.lengths, 0, MAX_BATCH as u64 * 4),
        ("states", &cache.states, 0, bytes.states),
        ("scalars", &cache.scalars, 0, bytes.scalars),
    ])
}

/// An operator with its buffers: records calls.
#[derive(Clone, Debug)]
pub struct Bound {
    dispatches: Vec<Dispatch>,
}

impl Bound {
    /// Records the call into the caller's encoder. Never submits, never waits.
    pub fn record(&self, encoder: &mut wgpu::CommandEncoder) {
        dispatch::record(&self.dispatches, encoder);
    }

    /// Records the call with the time of every pass.
    pub fn record_profiled(&self, encoder: &mut wgpu::CommandEncoder, profile: &mut Profile) {
        profile.record(&self.dispatches, encoder);
    }

    /// What one call dispatches, in order.
    pub fn dispatches(&self) -> &[Dispatch] {
        &self.dispatches
    }
}

fn supported(gpu: &Gpu, config: &Config, decider: Decider, float: Float, walk: Walk) -> Result<()> {
    if float == Float::F16 && !gpu.variant().f16 {
        return Err(
            Error::unsupported("op", "float", "f32 on this device", "f16")
                .advise("the device lacks shader-f16; f32 computes the same"),
        );
    }
    if weighs_matrices(config, decider) && walk == Walk::Chunks {
        return Err(Error::unsupported(
            "op",
            "path",
            "steps, for ward weighs the matrices",
            "chunks",
        ));
    }
    Ok(())
}
