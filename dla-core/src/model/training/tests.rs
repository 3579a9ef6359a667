//! Every gradient against finite differences of a forward pass whose recurrence is written anew.
//!
//! Decisions and scores are those of the run whose gradients are checked, held fixed; every gate γ is
//! applied as a number, so that τ acts through its gate alone.

use super::network::Network;
use super::operator::Call;
use super::{Batch, Step, loss_and_gradients};
use crate::backbone;
use crate::cache::Cache;
use crate::config::{Config, MergeCost, Schedule};
use crate::decisions::Trace;
use crate::dla::gate::{self, Gate, GateMode};
use crate::dla::merge;
use crate::dla::readout::{readout, weight_index};
use crate::dla::sequence::Sequence;
use crate::dla::state::{self, State};
use crate::inputs::Output;
use crate::model::{
    AttentionConfig, DlaConfig, Family, GatedDeltaConfig, Mamba2Config, MixerConfig, ModelConfig,
    ModelTensors, SpecialIds, TensorName,
};
use crate::nn::check::numbers;
use crate::nn::loss::{IGNORED, cross_entropy};
use crate::vector::{add_scaled, dot};

const SEQUENCES: usize = 2;
const TOKENS: usize = 13;

fn mamba2() -> ModelConfig {
    ModelConfig {
        family: Family::Mamba2,
        hidden: 5,
        layers: 2,
        vocabulary: 7,
        tied: false,
        norm_epsilon: 1e-2,
        mixer: MixerConfig::Mamba2(Mamba2Config {
            heads: 4,
            head_dim: 3,
            groups: 2,
            state: 2,
            conv_width: 3,
            conv_bias: true,
            bias: true,
            dt_limit: [0.3, 1.5],
        }),
        dla: None,
        special: SpecialIds::default(),
    }
}

fn gated_delta() -> ModelConfig {
    ModelConfig {
        family: Family::GatedDeltaNet,
        tied: true,
        mixer: MixerConfig::GatedDelta(GatedDeltaConfig {
            key_heads: 1,
            value_heads: 2,
            key_dim: 3,
            value_dim: 2,
            conv_width: 4,
            gate: true,
            negative_eigenvalues: true,
            intermediate: 4,
        }),
        ..mamba2()
    }
}

fn attention() -> ModelConfig {
    ModelConfig {
        family: Family::Attention,
        mixer: MixerConfig::Attention(AttentionConfig {
            heads: 2,
            head_dim: 3,
            conv_width: 2,
            intermediate: 4,
        }),
        ..mamba2()
    }
}

fn with_dla(plain: ModelConfig, schedule: Schedule, capacity: usize) -> ModelConfig {
    let operator = Config {
        schedule,
        merge: MergeCost::Density,
        ..Config::new(plain.backbone())
    };
    ModelConfig {
        dla: Some(DlaConfig { capacity, operator }),
        ..plain
    }
}

/// Weights that leave no gradient zero, τ where about half of the tokens open a state.
fn weights(config: &ModelConfig) -> ModelTensors<Vec<f64>> {
    let names = ModelTensors::<TensorName>::names(config).expect("names");
    let mut seed = 0;
    names.map(|tensor| {
        seed += 1;
        let inputs = tensor.shape.last().map_or(1, |&last| last.max(2)) as f64;
        let (offset, size) = match &tensor.name {
            name if name.ends_with("tau") => (1.35, 0.1),
            name if name.ends_with("norm.weight") => (1.0, 0.3),
            name if name.ends_with("lambda_scale") => (1.0, 0.5),
            _ if tensor.shape.len() == 1 => (0.0, 0.5),
            _ => (0.0, 1.5 / inputs.sqrt()),
        };
        let values = numbers(tensor.len(), seed);
        values.iter().map(|x| offset + size * x).collect()
    })
}

/// A model, a batch, a gate, and what a run of them measured and decided.
struct Problem {
    config: ModelConfig,
    tensors: ModelTensors<Vec<f64>>,
    ids: Vec<u32>,
    targets: Vec<u32>,
    gate: Gate,
    step: Step<f64>,
}

impl Problem {
    fn new(config: ModelConfig, mode: GateMode) -> Self {
        let id = |x: &f64| ((x + 1.0) * 3.5) as u32;
        let ids: Vec<u32> = numbers(SEQUENCES * TOKENS, 90).iter().map(id).collect();
        let mut targets: Vec<u32> = numbers(SEQUENCES * TOKENS, 91).iter().map(id).collect();
        targets[3] = IGNORED;
        let (tensors, gate) = (weights(&config), Gate { mode, theta: 0.3 });
        let batch = Batch {
            sequences: SEQUENCES,
            ids: &ids,
            targets: &targets,
            replay: None,
        };
        let step = loss_and_gradients(&config, &tensors, &batch, &gate).expect("a valid step");
        Self {
            config,
            tensors,
            ids,
            targets,
            gate,
            step,
        }
    }

    /// The loss of other tensors under the decisions and scores of the run.
    fn loss(&self, tensors: ModelTensors<Vec<f64>>) -> f64 {
        let batch = Batch {
            sequences: SEQUENCES,
            ids: &self.ids,
            targets: &self.targets,
            replay: None,
        };
        let run = |layer: usize, call: &Call<'_>| Ok(self.recurrence(layer, call));
        let network = Network::new(&self.config, tensors);
        let (logits, _) = network.forward(&batch, &run).expect("a valid pass");
        cross_entropy(&logits, self.config.vocabulary, &self.targets)
            .expect("a loss")
            .value
    }

    fn recurrence(&self, layer: usize, call: &Call<'_>) -> Output<f64> {
        let dims = call.dims;
        let mut o = vec![0.0; dims.value_len()];
        for i in 0..dims.sequences() {
            let sequence = Sequence::new(dims, call.inputs, i / dims.heads, i % dims.heads);
            let mut states = Vec::new();
            for t in 0..sequence.len() {
                self.advance(layer, call, (&sequence, t), &mut states);
                let (lambda, count) = (sequence.lambda(t), states.len());
                let position = t as u64 + 1;
                let weight = |i| lambda[weight_index(call.config.schedule, position, count, i)];
                let o = &mut o[sequence.at(t) * dims.value_dim..][..dims.value_dim];
                readout(sequence.token(t).q, &states, weight, o);
            }
        }
        Output {
            o,
            trace: Trace::new(dims),
            cache: Cache::new(dims),
        }
    }

    fn advance(
        &self,
        layer: usize,
        call: &Call<'_>,
        (sequence, t): (&Sequence<'_, f64>, usize),
        states: &mut Vec<State<f64>>,
    ) {
        let token = sequence.token(t);
        for state in states.iter_mut() {
            backbone::transition(call.config.backbone, &token, &mut state.matrix);
        }
        let mut s = vec![0.0; call.dims.state_len()];
        backbone::contribution(call.config.backbone, &token, &mut s);
        let decision = self.step.traces[layer].decisions.get(sequence.at(t));
        let mut opens = merge::apply(call.config.schedule, states, decision);
        if !states.is_empty() {
            let gamma = self.gamma(layer, sequence.at(t), call, opens);
            gate::release(states, opens, gamma);
            opens = false;
        }
        state::write(states, opens, &s, 0.0);
    }

    /// γ of the tensors' own τ: exactly so in mode soft, along the gate's slope at the run's τ in the others.
    fn gamma(&self, layer: usize, at: usize, call: &Call<'_>, opens: bool) -> f64 {
        let hard = f64::from(u8::from(opens));
        let Some(dla) = &self.tensors.blocks[layer].dla else {
            return hard;
        };
        if call.config.schedule != Schedule::Dynamic {
            return hard;
        }
        let head = at % call.dims.heads;
        let (score, tau) = (
            self.step.traces[layer].score[at].into(),
            call.inputs.tau[head],
        );
        match self.gate.mode {
            GateMode::Hard => hard,
            GateMode::StraightThrough => {
                hard - (tau - dla.tau[head]) * self.gate.slope(score, dla.tau[head])
            }
            GateMode::Soft => self.gate.value(score, tau),
        }
    }

    /// The derivative of the loss along `direction` of tensor `index`.
    fn along(&self, index: usize, direction: &[f64]) -> f64 {
        let step = 1e-5;
        let moved = |step: f64| {
            let mut tensors = self.tensors.clone();
            let tensor = tensors.iter_mut().nth(index).expect("a tensor");
            add_scaled(tensor, step, direction);
            self.loss(tensors)
        };
        (moved(step) - moved(-step)) / (2.0 * step)
    }

    /// Every tensor along two random directions.
    fn check(&self) {
        let learns = self.gate.mode != GateMode::Hard;
        let learns = learns && self.config.operator().schedule == Schedule::Dynamic;
        let names = ModelTensors::<TensorName>::names(&self.config).expect("names");
        for (index, (name, gradient)) in names.iter().zip(self.step.gradients.iter()).enumerate() {
            let size = dot(gradient, gradient).sqrt();
            if name.name.ends_with("tau") && !learns {
                assert_eq!(size, 0.0, "{}", name.name);
                continue;
            }
            assert!(size > 1e-8, "{} has no gradient", name.name);
            for seed in 0..2 {
                let direction = numbers(gradient.len(), seed + 50);
                let (got, expected) = (dot(gradient, &direction), self.along(index, &direction));
                let near = (got - expected).abs() <= 1e-5 * expected.abs().max(size);
                assert!(
                    near,
                    "{}: gradient {got}, finite difference {expected}",
                    name.name
                );
            }
        }
    }

    /// Tokens that opened a state, and merges, over all layers.
    fn decided(&self) -> (usize, usize) {
        let decisions = self.step.traces.iter().map(|trace| &trace.decisions);
        let count = |d: &crate::Decisions| {
            let opened = d.boundary.iter().filter(|&&b| b == 1).count();
            (opened, d.merge_at.iter().filter(|&&at| at >= 0).count())
        };
        decisions
            .map(count)
            .fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))
    }
}

#[test]
fn gradients_are_finite_differences_in_every_mode() {
    for plain in [mamba2(), gated_delta()] {
        for mode in [GateMode::Hard, GateMode::StraightThrough, GateMode::Soft] {
            let problem = Problem::new(with_dla(plain.clone(), Schedule::Dynamic, 3), mode);
            let (opened, merged) = problem.decided();
            let all = SEQUENCES * TOKENS * problem.config.dims().heads * 2;
            assert!(
                opened > all / 5 && opened < all * 4 / 5,
                "{opened} of {all} opened"
            );
            assert!(merged > 5, "{merged} merges");
            problem.check();
        }
    }
}

#[test]
fn gradients_are_finite_differences_under_every_schedule() {
    for plain in [mamba2(), gated_delta()] {
        for schedule in [
            Schedule::Single,
            Schedule::Fixed { block: 3 },
            Schedule::Fenwick,
            Schedule::Offline,
        ] {
            let config = with_dla(plain.clone(), schedule, 5);
            Problem::new(config, GateMode::StraightThrough).check();
        }
    }
}

#[test]
fn gradients_of_plain_models_and_attention_are_finite_differences() {
    for plain in [mamba2(), gated_delta(), attention()] {
        for tied in [true, false] {
            let config = ModelConfig {
                tied,
                ..plain.clone()
            };
            Problem::new(config, GateMode::StraightThrough).check();
        }
    }
}

#[test]
fn gradients_without_optional_tensors_are_finite_differences() {
    let (mut bare, mut ungated) = (mamba2(), gated_delta());
    if let MixerConfig::Mamba2(mixer) = &mut bare.mixer {
        (mixer.bias, mixer.conv_bias, mixer.conv_width) = (false, false, 1);
    }
    if let MixerConfig::GatedDelta(mixer) = &mut ungated.mixer {
        (mixer.gate, mixer.negative_eigenvalues) = (false, false);
    }
    for plain in [bare, ungated] {
        let config = with_dla(plain, Schedule::Dynamic, 3);
        Problem::new(config, GateMode::StraightThrough).check();
    }
}
