//! Where a run takes place, and how users are told.

use std::num::NonZeroUsize;

use dla_core::dla::backward::{self, Gradients};
use dla_core::dla::gate::{Gate, GateMode};
use dla_core::dla::{chunk, recurrent};
use dla_core::{Cache, Config, Dims, Error, Inputs, Output, Result};
use dla_wgpu::{Gpu, GpuOptions};

use crate::args::{Backend, Global};
use crate::{progress, report};

/// What runs the operator.
#[derive(Debug)]
pub enum Engine {
    /// The reference in plain Rust.
    Cpu,
    /// A device.
    Gpu {
        /// The device.
        gpu: Gpu,
        /// Whether the CPU takes over what the device cannot do.
        or_cpu: bool,
    },
}

/// One call of the operator.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The sizes.
    pub dims: &'a Dims,
    /// The settings.
    pub config: &'a Config,
    /// The arrays.
    pub inputs: &'a Inputs<'a, f32>,
    /// The states to start from.
    pub cache: Option<&'a Cache<f32>>,
    /// How boundaries take part in training; `soft` changes the outputs too.
    pub gate: Gate,
    /// Tokens of a chunk; absent means token by token on the CPU, the device's own choice on a GPU.
    pub chunk: Option<NonZeroUsize>,
}

impl Engine {
    /// Follows `--backend` and `--adapter`. Left to ourselves we take no software adapter: it only
    /// imitates a GPU on the CPU, and compiles longer than the reference runs.
    ///
    /// # Errors
    /// When a device was asked for and cannot be opened.
    pub fn open(global: &Global) -> Result<Self> {
        if global.backend == Backend::Cpu {
            return Ok(Self::Cpu);
        }
        let or_cpu = global.backend == Backend::Auto;
        let free = or_cpu && global.adapter.is_none();
        let why_cpu = match open_gpu(global.adapter.clone()) {
            Ok(gpu) if free && gpu.is_software() => {
                "running on the CPU: the only adapter is software; --backend gpu takes it".into()
            }
            Ok(gpu) => return Ok(Self::Gpu { gpu, or_cpu }),
            Err(_) if free && Gpu::adapters().is_empty() => {
                "no adapter found, so the CPU path runs".into()
            }
            Err(error) if free => format!("running on the CPU: {error}"),
            Err(error) => return Err(error),
        };
        report::note(&why_cpu);
        Ok(Self::Cpu)
    }

    /// Its kind, as `--backend` spells it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Gpu { .. } => "gpu",
        }
    }

    /// Its name for people.
    pub fn name(&self) -> String {
        match self {
            Self::Cpu => "the CPU".into(),
            Self::Gpu { gpu, .. } => gpu.info().name,
        }
    }

    /// Runs the operator.
    ///
    /// # Errors
    /// When the operator refuses its inputs or the run fails.
    pub fn forward(&mut self, call: &Call<'_>) -> Result<Output<f32>> {
        self.run("running the operator", |engine| engine.try_forward(call))
    }

    /// The gradients of Σ o·do.
    ///
    /// # Errors
    /// When the operator refuses its inputs or the run fails.
    pub fn backward(&mut self, call: &Call<'_>, d_o: &[f32]) -> Result<Gradients<f32>> {
        self.run("running the operator backwards", |engine| {
            engine.try_backward(call, d_o)
        })
    }

    /// Does `work` while a spinner turns where someone watches; with `--backend auto` a device that
    /// cannot do it is left for the CPU, and the user told.
    fn run<T>(&mut self, what: &'static str, work: impl Fn(&Self) -> Result<T>) -> Result<T> {
        progress::watched(what, || match work(self) {
            Err(error) if error.is_unsupported() && self.may_fall_back() => {
                report::note(&format!("running on the CPU: {error}"));
                *self = Self::Cpu;
                work(self)
            }
            done => done,
        })
    }

    fn may_fall_back(&self) -> bool {
        matches!(self, Self::Gpu { or_cpu: true, .. })
    }

    fn try_forward(&self, call: &Call<'_>) -> Result<Output<f32>> {
        let Call {
            dims,
            config,
            inputs,
            cache,
            gate,
            chunk,
        } = *call;
        let soft = gate.mode == GateMode::Soft;
        match (self, chunk) {
            (Self::Cpu, None) => recurrent::forward_gated(dims, config, inputs, cache, &gate),
            _ if soft => Err(
                Error::unsupported("op", "gate", "hard|straight-through", "soft")
                    .advise("the soft recurrence runs on the CPU, without --chunk"),
            ),
            (Self::Cpu, Some(c)) => chunk::forward(dims, config, inputs, cache, c.get()),
            (Self::Gpu { gpu, .. }, _) => {
                let chunk = chunk.map(NonZeroUsize::get);
                let options = dla_wgpu::op::Options {
                    chunk,
                    ..Default::default()
                };
                dla_wgpu::op::run(gpu, dims, config, inputs, cache, &options)
            }
        }
    }

    fn try_backward(&self, call: &Call<'_>, d_o: &[f32]) -> Result<Gradients<f32>> {
        let Call {
            dims,
            config,
            inputs,
            cache,
            gate,
            chunk,
        } = *call;
        match self {
            Self::Cpu => backward::backward(dims, config, inputs, cache, d_o, &gate),
            Self::Gpu { gpu, .. } => {
                let options = dla_wgpu::op::Options {
                    chunk: chunk.map(NonZeroUsize::get),
                    ..Default::default()
                };
                let loss = dla_wgpu::op::Loss { d_o, gate };
                dla_wgpu::op::gradients(gpu, dims, config, inputs, cache, &loss, &options)
            }
        }
    }
}

/// Opens the named adapter, or the best.
///
/// # Errors
/// When there is none or it refuses the device.
pub fn open_gpu(adapter: Option<String>) -> Result<Gpu> {
    Gpu::new_blocking(&GpuOptions {
        adapter,
        ..Default::default()
    })
}
