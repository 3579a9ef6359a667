//! A training step seen from outside: the model's own loss, batches, small runs, the optimiser.

use dla_core::dla::gate::{Gate, GateMode};
use dla_core::model::training::{AdamW, AdamWOptions, Batch, LearningRate, loss_and_gradients};
use dla_core::model::{
    Call, Initial, Mamba2Config, MixerConfig, ModelConfig, ModelTensors, Rows, TensorName,
};
use dla_core::nn::loss::{IGNORED, cross_entropy};
use dla_core::{Decisions, Model};

use crate::support::{RandomWeights, attention, dynamic, gated_delta, ids, mamba2};

/// A DLA model of each backbone, and softmax attention.
fn configs() -> [ModelConfig; 3] {
    let [mamba2, gated_delta] = [mamba2().0, gated_delta().0].map(|plain| dynamic(plain, 4));
    [mamba2, gated_delta, attention()]
}

fn random(config: &ModelConfig) -> ModelTensors<Vec<f32>> {
    ModelTensors::load(config, &mut RandomWeights::default()).expect("weights for everything")
}

fn initial(config: &ModelConfig, seed: u64) -> ModelTensors<Vec<f32>> {
    let mut source = Initial::new(config, seed, 1.2).expect("a number");
    ModelTensors::load(config, &mut source).expect("weights for everything")
}

fn batch<'a>(sequences: usize, ids: &'a [u32], targets: &'a [u32]) -> Batch<'a> {
    Batch {
        sequences,
        ids,
        targets,
        replay: None,
    }
}

fn assert_near(what: &str, got: f64, want: f64, tolerance: f64) {
    let near = (got - want).abs() <= tolerance * want.abs();
    assert!(near, "{what}: {got}, expected {want}");
}

#[test]
fn the_loss_is_that_of_the_model() {
    for config in configs() {
        let (ids, mut targets) = (ids(40), ids(41)[1..].to_vec());
        targets[7] = IGNORED;
        let step = loss_and_gradients(
            &config,
            &random(&config),
            &batch(1, &ids, &targets),
            &Gate::default(),
        );
        let step = step.expect("a valid step");
        let model = Model::build(&config, &mut RandomWeights::default()).expect("weights");
        let decisions: Vec<Decisions> = step
            .traces
            .iter()
            .map(|trace| trace.decisions.clone())
            .collect();
        let call = Call {
            logits: Rows::All,
            traces: true,
            replay: Some(&decisions),
        };
        let reply = model
            .run(&mut model.session(), &ids, &call)
            .expect("valid ids");
        let want = cross_entropy(&reply.logits, config.vocabulary, &targets).expect("targets");
        assert_eq!(step.counted, 39);
        let family = config.family.to_string();
        assert_near(&family, step.loss, want.value.into(), 1e-5);
    }
}

#[test]
fn sequences_of_a_batch_are_independent() {
    for config in configs() {
        let (tensors, gate) = (random(&config), Gate::default());
        let (ids, targets) = (ids(30), ids(31)[1..].to_vec());
        let step = |b, ids, targets| {
            loss_and_gradients(&config, &tensors, &batch(b, ids, targets), &gate).expect("a step")
        };
        let both = step(2, &ids, &targets);
        let [first, second] = [0..15, 15..30].map(|r| step(1, &ids[r.clone()], &targets[r]));
        assert_near("loss", both.loss, (first.loss + second.loss) / 2.0, 1e-12);
        let alone = first.gradients.zip(second.gradients).expect("one model");
        for (both, (first, second)) in both.gradients.iter().zip(alone) {
            for ((both, first), second) in both.iter().zip(first).zip(second) {
                assert!((both - (first + second) / 2.0).abs() <= 1e-6 * (1.0 + both.abs()));
            }
        }
    }
}

#[test]
fn replayed_decisions_are_followed() {
    let config = dynamic(mamba2().0, 4);
    let (tensors, gate) = (random(&config), Gate::default());
    let (ids, targets) = (ids(20), ids(21)[1..].to_vec());
    let own = batch(1, &ids, &targets);
    let step = loss_and_gradients(&config, &tensors, &own, &gate).expect("a step");
    let decisions: Vec<_> = step
        .traces
        .iter()
        .map(|trace| trace.decisions.clone())
        .collect();
    let replay = |layers| Batch {
        replay: Some(layers),
        ..own
    };
    let again = loss_and_gradients(&config, &tensors, &replay(&decisions), &gate);
    assert_eq!(again.expect("its own decisions"), step);
    let mut single = Decisions::new(20 * 6);
    single.boundary[..6].fill(1);
    let single = [single.clone(), single];
    let other = loss_and_gradients(&config, &tensors, &replay(&single), &gate);
    let other = other.expect("one state");
    assert_eq!(other.traces[1].decisions, single[1]);
    assert_ne!(other.loss, step.loss);
}

/// A hundred steps on one batch.
fn overfit(config: &ModelConfig) -> [f64; 2] {
    let mut tensors = initial(config, 1);
    let (ids, targets) = (ids(24), ids(25)[1..].to_vec());
    let options = AdamWOptions {
        weight_decay: 0.01,
        ..AdamWOptions::default()
    };
    let mut optimiser = AdamW::new(config, options).expect("valid settings");
    let rate = LearningRate {
        peak: 2e-2,
        least: 2e-3,
        warmup: 10,
        steps: 100,
    };
    let mut losses = Vec::new();
    for step in 0..100 {
        let batch = batch(2, &ids, &targets);
        let got = loss_and_gradients(config, &tensors, &batch, &Gate::default());
        let got = got.expect("a valid step");
        losses.push(got.loss);
        let norm = optimiser.update(&mut tensors, &got.gradients, rate.at(step));
        assert!(norm.expect("finite gradients") > 0.0);
    }
    assert_eq!(optimiser.step(), 100);
    [losses[0], losses[99]]
}

#[test]
fn a_hundred_steps_learn_one_batch_by_heart() {
    for config in configs() {
        let [first, last] = overfit(&config);
        let chance = (config.vocabulary as f64).ln();
        assert_near("the first loss", first, chance, 0.05);
        assert!(last < 0.02, "{}: {first} to {last}", config.family);
    }
}

#[test]
fn mistakes_are_named() {
    let config = dynamic(gated_delta().0, 4);
    let tensors = random(&config);
    let argument = |tensors: &ModelTensors<Vec<f32>>, batch: &Batch<'_>, gate: &Gate| {
        let error = loss_and_gradients(&config, tensors, batch, gate).expect_err("a mistake");
        assert!(error.is_input(), "{error}");
        error.argument().to_owned()
    };
    let gate = Gate::default();
    let of = |sequences, ids: &[u32], targets: &[u32]| {
        argument(&tensors, &batch(sequences, ids, targets), &gate)
    };
    assert_eq!(of(0, &[1, 2], &[1, 2]), "ids");
    assert_eq!(of(2, &[1, 2, 3], &[1, 2, 3]), "ids");
    assert_eq!(of(1, &[1, 2], &[1]), "targets");
    assert_eq!(of(1, &[1, 2], &[1, 23]), "targets");
    assert_eq!(of(1, &[1, 2], &[IGNORED; 2]), "targets");
    assert_eq!(of(1, &[], &[]), "targets");
    assert_eq!(of(1, &[1, 23], &[1, 2]), "input_ids");
    let good = batch(1, &[1, 2], &[1, 2]);
    let replay = Some(&[][..]);
    assert_eq!(
        argument(&tensors, &Batch { replay, ..good }, &gate),
        "replay"
    );
    let flat = Gate {
        mode: GateMode::Soft,
        theta: 0.0,
    };
    assert_eq!(argument(&tensors, &good, &flat), "theta");
    let mut short = tensors.clone();
    short.norm.pop();
    assert_eq!(argument(&short, &good, &gate), "tensor model.norm.weight");
    let other = random(&attention());
    assert_eq!(argument(&other, &good, &gate), "tensors");
}

#[test]
fn a_tree_is_walked_in_the_order_of_loading() {
    for config in configs() {
        let mut asked = RandomWeights::default();
        let tensors = ModelTensors::load(&config, &mut asked).expect("weights for everything");
        let names = ModelTensors::<TensorName>::names(&config).expect("names");
        assert_eq!(names.iter().count(), asked.tensors.len());
        let pairs = names.zip(tensors).expect("one model");
        for ((name, values), (asked, shape, expected)) in pairs.into_iter().zip(asked.tensors) {
            assert_eq!((name.name, name.shape, values), (asked, shape, expected));
        }
    }
    let [a, b, c] = configs().map(|config| random(&config));
    let mut fewer = a.clone();
    fewer.blocks.pop();
    let untied = a.clone();
    let tied = ModelTensors {
        head: None,
        ..a.clone()
    };
    for other in [b, c, fewer, tied] {
        assert!(a.each_ref().zip(other.each_ref()).is_err());
    }
    assert!(a.zip(untied).is_ok());
}

#[test]
fn adamw_is_its_formula() {
    let config = gated_delta().0;
    let options = AdamWOptions {
        clip: 0.5,
        ..AdamWOptions::default()
    };
    let mut tensors = initial(&config, 3);
    let mut optimiser = AdamW::new(&config, options).expect("valid settings");
    let decays = options.decays(&config).expect("names");
    let mut want: Vec<[f64; 3]> = tensors
        .iter()
        .flatten()
        .map(|&x| [x.into(), 0.0, 0.0])
        .collect();
    let flat: Vec<bool> = tensors
        .iter()
        .zip(&decays)
        .flat_map(|(values, &decays)| vec![decays; values.len()])
        .collect();
    for step in 1..=3 {
        let scale = [1e-4, 1.0, 0.02][step - 1];
        let gradients = random(&config).map(|x| x.iter().map(|x| x * scale).collect::<Vec<_>>());
        let all: Vec<f64> = gradients.iter().flatten().map(|&g| g.into()).collect();
        let norm = all.iter().map(|g| g * g).sum::<f64>().sqrt();
        assert_eq!(norm > 0.5, step > 1, "clipped and not");
        let got = optimiser
            .update(&mut tensors, &gradients, 0.1)
            .expect("finite");
        assert_near("norm", got, norm, 1e-12);
        let t = step as i32;
        for ((x, g), decays) in want.iter_mut().zip(all).zip(&flat) {
            let g = g * (0.5 / norm).min(1.0);
            x[1] = 0.9 * x[1] + 0.1 * g;
            x[2] = 0.95 * x[2] + 0.05 * g * g;
            let (m, v) = (
                x[1] / (1.0 - 0.9f64.powi(t)),
                x[2] / (1.0 - 0.95f64.powi(t)),
            );
            let decay = if *decays { 0.1 * 0.1 * x[0] } else { 0.0 };
            x[0] = x[0] - decay - 0.1 * m / (v.sqrt() + 1e-8);
        }
        for (got, want) in tensors.iter().flatten().zip(&want) {
            let gap = (f64::from(*got) - want[0]).abs();
            assert!(
                gap <= 1e-6 * (1.0 + want[0].abs()),
                "step {step}: {got}, {want:?}"
            );
        }
    }
    let [mean, square] = optimiser.means().map(Clone::clone);
    let restored = AdamW::restore(&config, options, 3, [mean, square]);
    assert_eq!(restored.expect("its own means"), optimiser);
}

#[test]
fn matrices_decay_and_nothing_else() {
    let options = AdamWOptions::default();
    for config in configs() {
        let names = ModelTensors::<TensorName>::names(&config).expect("names");
        let decays = options.decays(&config).expect("names");
        for (name, decays) in names.zip(decays).expect("one model") {
            let kept = ["norm", "bias", "A_log", "D", "tau", "scale", "embeddings"];
            let last = name
                .name
                .trim_end_matches(".weight")
                .rsplit('.')
                .next()
                .unwrap_or("");
            let expected = !kept
                .iter()
                .any(|word| last.ends_with(word) || last == "norm_f");
            assert_eq!(decays, expected, "{}", name.name);
        }
    }
    let embeddings = AdamWOptions {
        decay_embeddings: true,
        ..options
    };
    assert!(embeddings.decays(&attention()).expect("names").embeddings);
}

#[test]
fn gradients_that_are_not_finite_move_nothing() {
    let config = attention();
    let mut tensors = initial(&config, 3);
    let before = tensors.clone();
    let mut optimiser = AdamW::new(&config, AdamWOptions::default()).expect("valid settings");
    let untouched = optimiser.clone();
    for bad in [f32::NAN, f32::INFINITY] {
        let mut gradients = random(&config);
        gradients.blocks[1].norm[3] = bad;
        let error = optimiser
            .update(&mut tensors, &gradients, 0.1)
            .expect_err("not finite");
        assert_eq!(error.argument(), "gradients");
    }
    let mut short = random(&config);
    short.norm.pop();
    assert!(optimiser.update(&mut tensors, &short, 0.1).is_err());
    assert!(
        optimiser
            .update(&mut tensors, &random(&gated_delta().0), 0.1)
            .is_err()
    );
    assert_eq!((tensors, optimiser), (before, untouched));
    let wrong = AdamWOptions {
        beta2: 1.0,
        ..AdamWOptions::default()
    };
    let error = AdamW::new(&config, wrong).expect_err("no mean");
    assert_eq!(error.argument(), "beta2");
}

fn mean_and_deviation(values: &[f32]) -> [f64; 2] {
    let count = values.len() as f64;
    let mean = values.iter().map(|&x| f64::from(x)).sum::<f64>() / count;
    let square = values
        .iter()
        .map(|&x| (f64::from(x) - mean).powi(2))
        .sum::<f64>()
        / count;
    [mean, square.sqrt()]
}

#[test]
fn initial_weights_are_those_of_the_families() {
    let (plain, mixer) = mamba2();
    let mixer = Mamba2Config {
        heads: 100,
        bias: true,
        ..mixer
    };
    let config = ModelConfig {
        hidden: 200,
        mixer: MixerConfig::Mamba2(Mamba2Config { groups: 4, ..mixer }),
        ..dynamic(plain, 3)
    };
    let tensors = initial(&config, 5);
    assert_eq!(tensors, initial(&config, 5));
    assert_ne!(tensors, initial(&config, 6));
    let block = &tensors.blocks[0];
    let dynamics = block.dla.as_ref().expect("DLA");
    let dla_core::model::MixerTensors::Mamba2(mixer) = &block.mixer else {
        panic!("Mamba-2");
    };
    let [mean, deviation] = mean_and_deviation(&mixer.in_proj);
    assert!(mean.abs() < 1e-3 && (deviation - 0.02).abs() < 1e-3);
    assert_near(
        "out_proj",
        mean_and_deviation(&mixer.out_proj)[1],
        0.01,
        0.05,
    );
    let within = |values: &[f32], least: f32, most: f32| {
        let inside = values.iter().all(|x| (least..=most).contains(x));
        let middle = (least + most) / 2.0;
        inside && values.iter().any(|&x| x > middle) && values.iter().any(|&x| x < middle)
    };
    assert!(
        within(&mixer.conv, -0.5, 0.5) && within(mixer.conv_bias.as_ref().expect("one"), -0.5, 0.5)
    );
    assert!(within(&mixer.a_log, 0.0, 16f32.ln()));
    let steps: Vec<f32> = mixer.dt_bias.iter().map(|x| x.exp().ln_1p().ln()).collect();
    assert!(within(&steps, 1e-3f32.ln() - 1e-3, 1e-1f32.ln() + 1e-3));
    assert!(
        mixer
            .d
            .iter()
            .chain(&mixer.norm)
            .chain(&block.norm)
            .all(|&x| x == 1.0)
    );
    assert!(
        mixer
            .in_bias
            .iter()
            .chain(&mixer.out_bias)
            .flatten()
            .all(|&x| x == 0.0)
    );
    assert!(dynamics.tau.iter().all(|&x| x == 1.2));
    assert!(dynamics.lambda_proj.iter().all(|&x| x == 0.0));
    assert!(dynamics.lambda_scale.iter().all(|&x| x == 1.0));
    assert!(
        dynamics
            .lambda_bias
            .iter()
            .all(|&x| (x.exp().ln_1p() - 1.0).abs() < 1e-6)
    );
    assert!(Initial::new(&config, 1, f32::NAN).is_err());
}
