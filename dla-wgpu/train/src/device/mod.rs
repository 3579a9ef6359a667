//! Training on a device: forwards, backwards and the optimiser in this project's own passes.

mod block;
mod layout;
mod parameters;
mod plan;
mod scaling;
mod shared;
mod work;

use std::collections::HashMap;

use dla_core::dla::gate::{Gate, GateMode};
use dla_core::model::training::AdamWOptions;
use dla_core::model::{ModelConfig, ModelTensors, TensorName};
use dla_core::nn::loss;
use dla_core::{Error, Result};
use dla_wgpu::nn::Rows;
use dla_wgpu::nn::backward::{self, AdamW, embedding_order};
use dla_wgpu::op::finite_threshold;
use dla_wgpu::{Dispatch, Gpu, Readback};

use crate::batch::Batch;
use crate::engine::{Engine, Pace, Scores, Snapshot, StepReport, counted};
use crate::settings::{ComputeSettings, Precision};
use parameters::{Parameters, Which};
use plan::Plan;
use scaling::Scaling;

/// A model in training on a device, with f32 weights and activations; under f16 linear maps read their weights, and the
/// operator its arrays, rounded to that, and all sums stay f32.
///
/// Deterministic: equal batches from an equal start give equal bits on one adapter.
#[derive(Debug)]
pub struct DeviceEngine {
    gpu: Gpu,
    config: ModelConfig,
    gate: GateMode,
    options: AdamWOptions,
    scaling: Scaling,
    parameters: Parameters,
    optimiser: AdamW,
    moves: u64,
    update: Vec<Dispatch>,
    /// Makes the weights in f16 again.
    halve: Vec<Dispatch>,
    plans: HashMap<(usize, usize), Plan>,
}

impl DeviceEngine {
    /// Trains the model of `snapshot`; τ learns through `gate`.
    ///
    /// # Errors
    /// For settings outside their ranges and a snapshot of another model; [`Error::is_unsupported`] for the soft gate,
    /// sizes beyond the device and f16 on a device without it; [`Error::is_device`] where it fails.
    pub fn new(
        gpu: &Gpu,
        config: ModelConfig,
        gate: GateMode,
        options: AdamWOptions,
        compute: &ComputeSettings,
        snapshot: Snapshot,
    ) -> Result<Self> {
        options.check()?;
        let scaling = Scaling::new(gpu, compute)?;
        let parameters = Parameters::new(gpu, &config, &options, compute.precision);
        let parameters = gpu.block_on(parameters);
        let parameters = parameters.map_err(|error| elsewhere(error, compute.precision))?;
        let halve = gpu.block_on(parameters.halve(gpu))?;
        let optimiser = gpu.block_on(AdamW::new(gpu))?;
        let update = gpu.block_on(async {
            let moved = parameters.moved()?;
            optimiser.prepare(gpu, &moved).await
        })?;
        let mut engine = Self {
            gpu: gpu.clone(),
            config,
            gate,
            options,
            scaling,
            parameters,
            optimiser,
            moves: 0,
            update,
            halve,
            plans: HashMap::new(),
        };
        engine.import(snapshot)?;
        Ok(engine)
    }

    /// Prepares work for batches of this shape, unless it is there.
    fn ready(&mut self, batch: &Batch) -> Result<(usize, usize)> {
        let key = (batch.sequences, batch.tokens());
        if !self.plans.contains_key(&key) {
            let rows = Rows {
                batch: key.0,
                tokens: key.1,
            };
            let how = (self.gate, self.scaling.float());
            let plan = Plan::new(&self.gpu, &self.config, how, &self.parameters, rows);
            let plan = self.gpu.block_on(plan);
            let plan = plan.map_err(|error| elsewhere(error, self.scaling.precision()))?;
            self.plans.insert(key, plan);
        }
        Ok(key)
    }

    /// Runs a batch forwards and, if there is a `way` back, backwards; its rows' measures are on their way.
    fn run(&mut self, batch: &Batch, way: Option<Way>) -> Result<Readback> {
        let key = self.ready(batch)?;
        let plan = &self.plans[&key];
        let lengths = vec![key.1 as u32; key.0];
        let vocabulary = self.config.vocabulary;
        let order = embedding_order(&batch.ids, key.1, &lengths, vocabulary)?;
        if batch.counted() > 0 {
            loss::counted(&batch.targets, vocabulary)?;
        }
        let queue = self.gpu.queue();
        queue.write_buffer(&plan.ids, 0, bytemuck::cast_slice(&batch.ids));
        queue.write_buffer(&plan.order, 0, bytemuck::cast_slice(&order));
        queue.write_buffer(&plan.targets, 0, bytemuck::cast_slice(&batch.targets));
        if let Some(Way { share, .. }) = way {
            queue.write_buffer(&plan.share, 0, &share.to_le_bytes());
        }
        if let (Some(Way { theta, .. }), Some(buffer)) = (way, &plan.theta) {
            queue.write_buffer(buffer, 0, &theta.to_le_bytes());
        }
        let mut encoder = self
            .gpu
            .device()
            .create_command_encoder(&Default::default());
        plan.record(&mut encoder, way.is_some());
        let size = plan.rows.count()? as u64 * 8;
        let readback = Readback::record(&self.gpu, &mut encoder, &plan.measures, size);
        let readback = self.gpu.block_on(readback)?;
        queue.submit([encoder.finish()]);
        Ok(readback)
    }

    /// Moves the parameters along their gradients.
    fn update(&mut self, rate: f64) -> Result<Moved> {
        let t = i32::try_from(self.moves + 1).unwrap_or(i32::MAX);
        let options = &self.options;
        let correction = |beta: f32| (1.0 - f64::from(beta).powi(t)) as f32;
        let step = backward::Step {
            rate: rate as f32,
            decay: (rate * f64::from(options.weight_decay)) as f32,
            beta1: options.beta1,
            beta2: options.beta2,
            epsilon: options.epsilon,
            corrections: [correction(options.beta1), correction(options.beta2)],
            clip: options.clip,
            unscale: self.scaling.scale().recip(),
        };
        self.gpu.block_on(self.optimiser.write(&self.gpu, &step))?;
        let mut encoder = self
            .gpu
            .device()
            .create_command_encoder(&Default::default());
        {
            let mut pass = encoder.begin_compute_pass(&Default::default());
            let work = self.update.iter().chain(&self.halve);
            work.for_each(|dispatch| dispatch.record(&mut pass));
        }
        let norm = Readback::record(&self.gpu, &mut encoder, self.optimiser.norm(), 20);
        let norm = self.gpu.block_on(norm)?;
        self.gpu.queue().submit([encoder.finish()]);
        let words: Vec<f32> = bytemuck::pod_collect_to_vec(&norm.wait(&self.gpu)?);
        Ok(Moved {
            norm: f64::from(words[0]),
            skipped: words[2] != 0.0,
            lost: words[4].to_bits() != 0,
        })
    }

    /// Makes the weights in f16 from the values.
    fn record_halves(&self) {
        let device = self.gpu.device();
        let mut encoder = device.create_command_encoder(&Default::default());
        {
            let mut pass = encoder.begin_compute_pass(&Default::default());
            let halve = self.halve.iter();
            halve.for_each(|dispatch| dispatch.record(&mut pass));
        }
        self.gpu.queue().submit([encoder.finish()]);
    }

    /// The first tensor with values that are not finite.
    fn lost(&self) -> Result<Option<String>> {
        let tensors = self.parameters.read(&self.gpu, &self.config, Which::Value);
        let names = ModelTensors::<TensorName>::names(&self.config)?;
        let pairs = names.zip(self.gpu.block_on(tensors)?)?;
        let lost = |(_, values): &(TensorName, Vec<f32>)| values.iter().any(|x| !x.is_finite());
        Ok(pairs.into_iter().find(lost).map(|(name, _)| name.name))
    }
}

/// What an update did.
struct Moved {
    /// The gradients' norm.
    norm: f64,
    /// Nothing moved.
    skipped: bool,
    /// A finite value is not finite any more.
    lost: bool,
}

/// The error for what a device does not serve, with where else it is trained: f16 is trained nowhere else.
fn elsewhere(error: Error, precision: Precision) -> Error {
    match error.is_unsupported() && precision == Precision::F32 {
        true => error.advise_otherwise("train it on the CPU (--backend cpu)"),
        false => error,
    }
}

/// What gradients depend on beside the batch.
#[derive(Clone, Copy)]
struct Way {
    /// What each target's loss counts.
    share: f32,
    /// The gate's θ.
    theta: f32,
}

/// Changes every threshold.
fn with_tau(tensors: &mut ModelTensors<Vec<f32>>, change: impl Fn(f32) -> f32) {
    let dla = tensors.blocks.iter_mut().flat_map(|block| &mut block.dla);
    for tau in dla.flat_map(|dla| &mut dla.tau) {
        *tau = change(*tau);
    }
}

/// Losses and hits out of a plan's measures.
fn scores(bytes: &[u8]) -> Scores {
    let values: Vec<f32> = bytemuck::pod_collect_to_vec(bytes);
    let pairs = values.as_chunks::<2>().0;
    Scores {
        losses: pairs.iter().map(|pair| pair[0]).collect(),
        hits: pairs.iter().map(|pair| pair[1] != 0.0).collect(),
    }
}

impl Engine for DeviceEngine {
    fn config(&self) -> &ModelConfig {
        &self.config
    }

    fn precision(&self) -> Precision {
        self.scaling.precision()
    }

    fn step(&mut self, batches: &[Batch], pace: Pace) -> Result<StepReport> {
        let all = counted(batches)?;
        Gate {
            mode: self.gate,
            theta: pace.theta,
        }
        .check()?;
        let way = Way {
            share: self.scaling.scale() / all as f32,
            theta: pace.theta as f32,
        };
        let mut encoder = self
            .gpu
            .device()
            .create_command_encoder(&Default::default());
        self.parameters.clear_gradients(&mut encoder);
        self.gpu.queue().submit([encoder.finish()]);
        let mut sum = 0.0;
        let mut waiting: Vec<Readback> = Vec::new();
        for batch in batches.iter().filter(|batch| batch.counted() > 0) {
            waiting.push(self.run(batch, Some(way))?);
        }
        let moved = self.update(pace.rate)?;
        for readback in waiting {
            let losses = scores(&readback.wait(&self.gpu)?).losses;
            sum += losses.iter().map(|&loss| f64::from(loss)).sum::<f64>();
        }
        self.moves += u64::from(!moved.skipped);
        let loss_scale = self.scaling.followed(moved.skipped);
        Ok(StepReport {
            loss: sum / all as f64,
            counted: all,
            gradient_norm: moved.norm,
            skipped: moved.skipped,
            loss_scale,
            lost: if moved.lost { self.lost()? } else { None },
        })
    }

    fn evaluate(&mut self, batch: &Batch) -> Result<Scores> {
        let readback = self.run(batch, None)?;
        Ok(scores(&readback.wait(&self.gpu)?))
    }

    fn export(&mut self) -> Result<Snapshot> {
        let (gpu, config) = (self.gpu.clone(), self.config.clone());
        gpu.block_on(async {
            let mut tensors = self.parameters.read(&gpu, &config, Which::Value).await?;
            with_tau(&mut tensors, |tau| match tau.abs() == f32::MAX {
                true => tau.signum() * f32::INFINITY,
                false => tau,
            });
            Ok(Snapshot {
                tensors,
                moves: self.moves,
                mean: self.parameters.read(&gpu, &config, Which::Mean).await?,
                square: self.parameters.read(&gpu, &config, Which::Square).await?,
                loss_scale: self.scaling.state(),
            })
        })
    }

    fn import(&mut self, mut snapshot: Snapshot) -> Result<()> {
        // Says which tensor does not fit.
        for tree in [&snapshot.tensors, &snapshot.mean, &snapshot.square] {
            tree.save(&self.config, &mut std::io::sink())?;
        }
        with_tau(&mut snapshot.tensors, finite_threshold);
        let parts = [
            (Which::Value, &snapshot.tensors),
            (Which::Mean, &snapshot.mean),
            (Which::Square, &snapshot.square),
        ];
        for (which, tree) in parts {
            let write = self.parameters.write(&self.gpu, &self.config, which, tree);
            self.gpu.block_on(write)?;
        }
        self.record_halves();
        self.scaling.restore(snapshot.loss_scale)?;
        self.moves = snapshot.moves;
        match self.moves > u64::from(u32::MAX) {
            true => Err(Error::input("train", "moves", "at most 2^32", self.moves)),
            false => Ok(()),
        }
    }
}
