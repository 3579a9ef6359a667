//! Models twice, in plain Rust and on the device, in every setting.

use std::collections::HashMap;

use dla_core::model::{
    Call, DlaConfig, GatedDeltaConfig, Mamba2Config, MixerConfig, ModelConfig, Rows, Weights,
};
use dla_core::{Config, Decisions, Model, Result, Schedule, Trace};
use dla_wgpu::Gpu;
use dla_wgpu::model::{self, Batch, Taken, Wanted};
use dla_wgpu::nn::WeightType;

use crate::models::{RandomWeights, distance, gated_delta, mamba2};

/// Tensors by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Stored(pub(super) HashMap<String, Vec<f32>>);

impl Stored {
    pub(super) fn random(config: &ModelConfig) -> Self {
        let mut weights = RandomWeights::default();
        Model::build(config, &mut weights).expect("weights for everything");
        let tensors = weights.tensors.into_iter();
        Self(tensors.map(|(name, _, values)| (name, values)).collect())
    }
}

impl Stored {
    /// The same with every matrix as a device keeps it, widened again.
    pub(super) fn rounded(&self, config: &ModelConfig, weight_type: WeightType) -> Self {
        let mut rounded = self.clone();
        for (name, shape) in matrices(config) {
            let Some(values) = rounded.0.get_mut(&name) else {
                panic!("no tensor {name}")
            };
            for row in values.chunks_exact_mut(shape[1]) {
                match weight_type {
                    WeightType::F32 => {}
                    WeightType::F16 => row
                        .iter_mut()
                        .for_each(|w| *w = half::f16::from_f32(*w).to_f32()),
                    WeightType::I8 => row.chunks_mut(32).for_each(round_to_8_bits),
                }
            }
        }
        rounded
    }
}

/// One scale for these weights.
fn round_to_8_bits(weights: &mut [f32]) {
    let scale = weights.iter().fold(0f32, |most, w| most.max(w.abs())) / 127.0;
    weights
        .iter_mut()
        .for_each(|w| *w = (*w / scale).round_ties_even() * scale);
}

/// The tensors that are kept as matrices: all of two sizes but the small ones of λ.
fn matrices(config: &ModelConfig) -> Vec<(String, Vec<usize>)> {
    let mut weights = RandomWeights::default();
    Model::build(config, &mut weights).expect("weights for everything");
    let tensors = weights
        .tensors
        .into_iter()
        .map(|(name, shape, _)| (name, shape));
    let matrix = |name: &str, shape: &[usize]| {
        shape.len() == 2 && !name.ends_with("lambda_scale") && !name.ends_with("lambda_bias")
    };
    tensors
        .filter(|(name, shape)| matrix(name, shape))
        .collect()
}

impl Weights for Stored {
    type Tensor = Vec<f32>;

    fn tensor(&mut self, name: &str, _shape: &[usize]) -> Result<Vec<f32>> {
        Ok(self.0[name].clone())
    }
}

/// A model twice: in plain Rust and on the device.
pub(super) struct Pair {
    pub(super) name: &'static str,
    pub(super) cpu: Model,
    pub(super) gpu: model::Model,
}

impl Pair {
    pub(super) fn new(gpu: &Gpu, name: &'static str, config: &ModelConfig) -> Self {
        let mut weights = Stored::random(config);
        let cpu = Model::build(config, &mut weights).expect("weights for everything");
        let load = model::Model::load(gpu, config, &mut weights, WeightType::F32);
        let gpu = gpu
            .block_on(load)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        Self { name, cpu, gpu }
    }

    pub(super) fn batch(&self, sequences: usize) -> Batch {
        let batch = self.gpu.gpu().block_on(self.gpu.batch(sequences));
        batch.unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    pub(super) fn run(&self, batch: &mut Batch, ids: &[&[u32]], wanted: &Wanted<'_>) -> Vec<Taken> {
        let taken = self.gpu.gpu().block_on(batch.run(ids, wanted));
        taken.unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    /// One sequence in pieces, all logits, all traces.
    pub(super) fn in_pieces(&self, ids: &[u32], pieces: &[usize]) -> Taken {
        let mut batch = self.batch(1);
        let mut all = Taken::default();
        let mut rest = ids;
        for &piece in pieces.iter().chain([&usize::MAX]) {
            let (now, later) = rest.split_at(piece.min(rest.len()));
            let [taken] = &self.run(&mut batch, &[now], &ALL)[..] else {
                panic!("one sequence")
            };
            append(&mut all, taken);
            rest = later;
        }
        assert_eq!(batch.position(0), ids.len() as u64);
        all
    }

    /// Holds what the device gave to the CPU's model under the same decisions.
    #[track_caller]
    pub(super) fn check(&self, ids: &[u32], taken: &Taken) {
        let replay: Vec<_> = taken
            .traces
            .iter()
            .map(|trace| trace.decisions.clone())
            .collect();
        let call = Call {
            logits: Rows::All,
            traces: true,
            replay: Some(&replay),
        };
        let reply = self
            .cpu
            .run(&mut self.cpu.session(), ids, &call)
            .expect("its decisions");
        let far = distance(&taken.logits, &reply.logits);
        assert!(far < 1e-4, "{}: logits are {far:.1e} away", self.name);
        for (layer, (got, want)) in taken.traces.iter().zip(&reply.traces).enumerate() {
            assert_eq!(got.count, want.count, "{}, layer {layer}", self.name);
            let config = self.cpu.config();
            let read = live_lambda(config, got, &taken.lambda[layer]);
            let far = distance(&read, &live_lambda(config, want, &reply.lambda[layer]));
            assert!(
                far < 1e-4,
                "{}, layer {layer}: λ is {far:.1e} away",
                self.name
            );
            let scores = got.score.iter().zip(&want.score);
            for (at, (got, want)) in scores.enumerate() {
                let near = (got - want).abs() <= if *want > 0.02 { 1e-3 } else { 5e-3 };
                assert!(
                    near,
                    "{}, layer {layer}, score {at}: {got} for {want}",
                    self.name
                );
            }
        }
        let own = self.cpu.run(
            &mut self.cpu.session(),
            ids,
            &Call {
                logits: Rows::None,
                traces: true,
                replay: None,
            },
        );
        let own = own.expect("valid ids");
        let parted = own.traces.iter().zip(&taken.traces);
        let parted: usize = parted
            .map(|(a, b)| differences(&a.decisions, &b.decisions))
            .sum();
        let all: usize = taken.traces.iter().map(|trace| trace.count.len()).sum();
        assert!(
            parted * 20 <= all,
            "{}: {parted} of {all} decisions differ",
            self.name
        );
    }
}

pub(super) const ALL: Wanted<'static> = Wanted {
    logits: Rows::All,
    top: 0,
    traces: true,
    lambda: true,
    replay: None,
};

fn differences(a: &Decisions, b: &Decisions) -> usize {
    let boundaries = a.boundary.iter().zip(&b.boundary).filter(|(a, b)| a != b);
    boundaries.count()
}

pub(super) fn append(all: &mut Taken, more: &Taken) {
    all.logits.extend(&more.logits);
    all.traces
        .resize(all.traces.len().max(more.traces.len()), Default::default());
    for (trace, more) in all.traces.iter_mut().zip(&more.traces) {
        trace.score.extend(&more.score);
        trace.decisions.boundary.extend(&more.decisions.boundary);
        trace.decisions.merge_at.extend(&more.decisions.merge_at);
        trace.count.extend(&more.count);
    }
    if !more.lambda.is_empty() {
        all.lambda.clone_from(&more.lambda);
    }
}

/// λ of a layer's live states.
fn live_lambda(config: &ModelConfig, trace: &Trace, lambda: &[f32]) -> Vec<f32> {
    let dims = config.dims();
    assert_eq!(lambda.len(), dims.heads * dims.capacity);
    let counts = &trace.count[trace.count.len() - dims.heads..];
    let heads = lambda.chunks_exact(dims.capacity).zip(counts);
    heads
        .flat_map(|(lambda, &count)| lambda[..count as usize].to_vec())
        .collect()
}

pub(super) fn with_dla(plain: ModelConfig, capacity: usize, schedule: Schedule) -> ModelConfig {
    let operator = Config {
        schedule,
        ..Config::new(plain.backbone())
    };
    let dla = Some(DlaConfig { capacity, operator });
    ModelConfig { dla, ..plain }
}

pub(super) fn mamba2_with(change: impl FnOnce(&mut Mamba2Config)) -> ModelConfig {
    let (config, mut mixer) = mamba2();
    change(&mut mixer);
    ModelConfig {
        mixer: MixerConfig::Mamba2(mixer),
        ..config
    }
}

pub(super) fn gated_delta_with(change: impl FnOnce(&mut GatedDeltaConfig)) -> ModelConfig {
    let (config, mut mixer) = gated_delta();
    change(&mut mixer);
    ModelConfig {
        mixer: MixerConfig::GatedDelta(mixer),
        ..config
    }
}

/// Every setting that a checkpoint may have, and every schedule.
pub(super) fn settings() -> Vec<(&'static str, ModelConfig)> {
    let (mamba, delta) = (mamba2().0, gated_delta().0);
    let dynamic = |plain: &ModelConfig| with_dla(plain.clone(), 4, Schedule::Dynamic);
    let tied = |plain: &ModelConfig| ModelConfig {
        tied: true,
        ..plain.clone()
    };
    vec![
        ("mamba2", mamba.clone()),
        ("mamba2, dynamic", dynamic(&mamba)),
        ("mamba2, tied", dynamic(&tied(&mamba))),
        (
            "mamba2, fixed",
            with_dla(mamba.clone(), 3, Schedule::Fixed { block: 5 }),
        ),
        (
            "mamba2, fenwick",
            with_dla(mamba.clone(), 9, Schedule::Fenwick),
        ),
        (
            "mamba2, single",
            with_dla(mamba.clone(), 3, Schedule::Single),
        ),
        (
            "mamba2, no conv bias",
            dynamic(&mamba2_with(|m| m.conv_bias = false)),
        ),
        (
            "mamba2, conv width 3",
            dynamic(&mamba2_with(|m| m.conv_width = 3)),
        ),
        (
            "mamba2, conv width 1",
            dynamic(&mamba2_with(|m| m.conv_width = 1)),
        ),
        ("mamba2, bias", dynamic(&mamba2_with(|m| m.bias = true))),
        (
            "mamba2, dt clamped",
            dynamic(&mamba2_with(|m| m.dt_limit = [0.3, 0.6])),
        ),
        ("mamba2, one group", dynamic(&mamba2_with(|m| m.groups = 1))),
        (
            "mamba2, values of 4",
            dynamic(&mamba2_with(|m| m.head_dim = 8)),
        ),
        ("delta", delta.clone()),
        ("delta, dynamic", dynamic(&delta)),
        ("delta, tied", dynamic(&tied(&delta))),
        (
            "delta, fenwick",
            with_dla(delta.clone(), 9, Schedule::Fenwick),
        ),
        (
            "delta, no gate",
            dynamic(&gated_delta_with(|d| d.gate = false)),
        ),
        (
            "delta, negative",
            dynamic(&gated_delta_with(|d| d.negative_eigenvalues = true)),
        ),
        (
            "delta, a key head each",
            dynamic(&gated_delta_with(|d| d.key_heads = 6)),
        ),
    ]
}
