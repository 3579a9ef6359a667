//! Training on a device beside training on the CPU.

#[path = "training/evaluation.rs"]
mod evaluation;
#[path = "training/half.rs"]
mod half;

use dla_core::dla::gate::{Gate, GateMode};
use dla_core::model::training::{AdamWOptions, Theta};
use dla_core::model::{
    AttentionConfig, DlaConfig, Family, GatedDeltaConfig, Initial, Mamba2Config, MixerConfig,
    ModelConfig, ModelTensors, SpecialIds, TensorName,
};
use dla_core::{Config, Result, Schedule};
use dla_tests::gpu::gpu;
use dla_train::{
    Batch, ComputeSettings, CpuEngine, DeviceEngine, Engine, Pace, Snapshot, StepReport,
};

/// Steps of a row of the table.
const STEPS: u64 = 10;

fn plain(mixer: MixerConfig, family: Family, tied: bool) -> ModelConfig {
    ModelConfig {
        family,
        hidden: 12,
        layers: 2,
        vocabulary: 19,
        tied,
        norm_epsilon: 1e-5,
        mixer,
        dla: None,
        special: SpecialIds::default(),
    }
}

fn with(plain: ModelConfig, schedule: Schedule) -> ModelConfig {
    let operator = Config {
        schedule,
        ..Config::new(plain.backbone())
    };
    let dla = DlaConfig {
        capacity: 7,
        operator,
    };
    ModelConfig {
        dla: Some(dla),
        ..plain
    }
}

fn mamba2() -> ModelConfig {
    let mixer = Mamba2Config {
        heads: 4,
        head_dim: 5,
        groups: 2,
        state: 6,
        conv_width: 4,
        conv_bias: true,
        bias: true,
        dt_limit: [0.0, f32::INFINITY],
    };
    plain(MixerConfig::Mamba2(mixer), Family::Mamba2, true)
}

fn gated_delta() -> ModelConfig {
    let mixer = GatedDeltaConfig {
        key_heads: 2,
        value_heads: 4,
        key_dim: 6,
        value_dim: 4,
        conv_width: 3,
        gate: true,
        negative_eigenvalues: false,
        intermediate: 20,
    };
    plain(MixerConfig::GatedDelta(mixer), Family::GatedDeltaNet, false)
}

fn attention(tied: bool) -> ModelConfig {
    let mixer = AttentionConfig {
        heads: 3,
        head_dim: 5,
        conv_width: 3,
        intermediate: 20,
    };
    plain(MixerConfig::Attention(mixer), Family::Attention, tied)
}

/// A model that trains from thresholds of `tau` with a course of θ.
struct Row {
    name: &'static str,
    config: ModelConfig,
    tau: f32,
    theta: Theta,
}

fn row(name: &'static str, config: ModelConfig) -> Row {
    let theta = Gate::default().theta;
    Row {
        name,
        // Many tokens open a state, and many do not.
        tau: match config.mixer {
            MixerConfig::Mamba2(_) => 0.25,
            _ => 1.4,
        },
        config,
        theta: Theta {
            start: theta,
            end: theta,
            steps: STEPS,
        },
    }
}

/// The models and schedules that both machines train alike.
fn table() -> Vec<Row> {
    let mut rows = vec![
        row("Mamba-2", mamba2()),
        row("Gated DeltaNet", gated_delta()),
        row("attention", attention(false)),
    ];
    for (name, schedule) in [
        ("dynamic", Schedule::Dynamic),
        ("single", Schedule::Single),
        ("Fenwick", Schedule::Fenwick),
    ] {
        rows.push(row(name, with(mamba2(), schedule)));
        rows.push(row(name, with(gated_delta(), schedule)));
    }
    for config in [mamba2(), gated_delta()] {
        let mut annealed = row("θ from 0.4 to 0.05", with(config, Schedule::Dynamic));
        (annealed.theta.start, annealed.theta.end) = (0.4, 0.05);
        rows.push(annealed);
    }
    rows
}

/// θ as it is by default.
fn pace(rate: f64) -> Pace {
    let theta = Gate::default().theta;
    Pace { rate, theta }
}

fn snapshot(config: &ModelConfig, tau: f32) -> Result<Snapshot> {
    let mut initial = Initial::new(config, 7, tau)?;
    Ok(Snapshot::untrained(ModelTensors::load(
        config,
        &mut initial,
    )?))
}

fn device(config: &ModelConfig, start: Snapshot) -> Result<Option<DeviceEngine>> {
    let Some(gpu) = gpu() else { return Ok(None) };
    let (gate, options) = (GateMode::default(), AdamWOptions::default());
    let compute = ComputeSettings::default();
    DeviceEngine::new(gpu, config.clone(), gate, options, &compute, start).map(Some)
}

fn cpu(config: &ModelConfig, start: Snapshot) -> Result<CpuEngine> {
    let (gate, options) = (GateMode::default(), AdamWOptions::default());
    CpuEngine::new(config.clone(), gate, options, start)
}

/// A batch of step `step`: 3 sequences of `tokens` tokens, some targets ignored.
fn batch_of(step: u32, tokens: u32) -> Batch {
    let id = |i: u32| (i * i * 7 + step * 5 + i / 3) % 19;
    let ids: Vec<u32> = (0..3 * tokens).map(id).collect();
    let targets = (0..3 * tokens).map(|i| {
        if i % tokens == tokens - 1 || i % 5 == 3 {
            u32::MAX
        } else {
            id(i + 1)
        }
    });
    Batch {
        sequences: 3,
        targets: targets.collect(),
        ids,
    }
}

fn batch(step: u32) -> Batch {
    batch_of(step, 21)
}

/// ‖got − want‖ / ‖want‖ over all tensors.
fn distance(got: &ModelTensors<Vec<f32>>, want: &ModelTensors<Vec<f32>>) -> f64 {
    let (mut gap, mut size) = (0.0, 0.0);
    for (got, want) in got.iter().flatten().zip(want.iter().flatten()) {
        gap += f64::from(got - want).powi(2);
        size += f64::from(*want).powi(2);
    }
    if gap.is_nan() {
        f64::INFINITY
    } else {
        (gap / size).sqrt()
    }
}

/// Holds every tensor's mean of gradients to the reference's; τ, where scores decide, has one.
fn compare_gradients(
    name: &str,
    config: &ModelConfig,
    got: &Snapshot,
    want: &Snapshot,
) -> Result<()> {
    let norm = |x: &[f64]| x.iter().map(|x| x * x).sum::<f64>().sqrt();
    let names = ModelTensors::<TensorName>::names(config)?;
    let dynamic = config.dla.is_some() && config.operator().schedule == Schedule::Dynamic;
    for (tensor, (got, want)) in names.iter().zip(got.mean.iter().zip(&want.mean)) {
        let gaps = got
            .iter()
            .zip(want)
            .map(|(got, want)| f64::from(got - want));
        let gap = norm(&gaps.collect::<Vec<_>>());
        let size = norm(&want.iter().map(|&x| f64::from(x)).collect::<Vec<_>>());
        assert!(
            gap <= 1e-4 * size,
            "{name}: {} is {gap:.1e} off {size:.1e}",
            tensor.name
        );
        let learns = dynamic || !tensor.name.ends_with("tau");
        assert_eq!(size > 0.0, learns, "{name}: {}", tensor.name);
    }
    Ok(())
}

/// Two reports of the same step.
fn compare(name: &str, got: &StepReport, want: &StepReport) {
    let near = |got: f64, want: f64, most: f64| (got - want).abs() <= most * want.abs();
    assert!(
        near(got.loss, want.loss, 1e-4),
        "{name}: loss {} for {}",
        got.loss,
        want.loss
    );
    assert!(
        near(got.gradient_norm, want.gradient_norm, 1e-3),
        "{name}: norm {} for {}",
        got.gradient_norm,
        want.gradient_norm
    );
    assert_eq!((got.counted, got.skipped), (want.counted, false), "{name}");
    assert_eq!((&got.lost, &want.lost), (&None, &None), "{name}");
}

#[test]
fn ten_steps_equal_the_references() -> Result<()> {
    for row in table() {
        let Row { name, config, .. } = &row;
        let name = format!("{}, {name}", config.family);
        let start = snapshot(config, row.tau)?;
        let Some(mut device) = device(config, start.clone())? else {
            return Ok(());
        };
        let mut cpu = cpu(config, start)?;
        for step in 0..STEPS {
            let number = 2 * step as u32;
            let batches = [batch_of(number, 21), batch_of(number + 1, 37)];
            let pace = Pace {
                rate: 3e-3,
                theta: row.theta.at(step),
            };
            let want = cpu.step(&batches, pace)?;
            let got = device.step(&batches, pace)?;
            compare(&format!("{name}, step {step}"), &got, &want);
        }
        let (got, want) = (device.export()?, cpu.export()?);
        assert_eq!(got.moves, want.moves);
        compare_gradients(&name, config, &got, &want)?;
        let far = distance(&got.tensors, &want.tensors);
        assert!(far < 1e-3, "{name}: tensors {far:.1e} away");
        let (got, want) = (device.evaluate(&batch(3))?, cpu.evaluate(&batch(3))?);
        let gaps = got
            .losses
            .iter()
            .zip(&want.losses)
            .map(|(a, b)| (a - b).abs());
        assert!(gaps.fold(0.0, f32::max) < 1e-2, "{name}: losses of targets");
    }
    Ok(())
}

#[test]
fn going_on_from_an_export_is_going_on_bit_for_bit() -> Result<()> {
    let dynamic = |config| with(config, Schedule::Dynamic);
    for config in [dynamic(mamba2()), dynamic(gated_delta()), attention(false)] {
        let Some(mut whole) = device(&config, snapshot(&config, 1.2)?)? else {
            return Ok(());
        };
        for step in 0..3 {
            whole.step(&[batch(step)], pace(1e-3))?;
        }
        let Some(mut again) = device(&config, whole.export()?)? else {
            return Ok(());
        };
        assert_eq!(again.export()?, whole.export()?);
        for step in 3..6 {
            assert_eq!(
                again.step(&[batch(step)], pace(1e-3))?,
                whole.step(&[batch(step)], pace(1e-3))?
            );
        }
        assert_eq!(again.export()?, whole.export()?);
    }
    Ok(())
}

#[test]
fn kind_33_and_34_a_gradient_that_is_no_number_moves_nothing() -> Result<()> {
    for config in [with(mamba2(), Schedule::Dynamic), attention(true)] {
        let mut start = snapshot(&config, 1.2)?;
        start.tensors.norm[3] = f32::NAN;
        let Some(mut device) = device(&config, start.clone())? else {
            return Ok(());
        };
        let report = device.step(&[batch(0)], pace(1e-3))?;
        assert!(report.skipped && !report.loss.is_finite(), "{report:?}");
        let after = device.export()?;
        assert_eq!((after.moves, &after.mean), (0, &start.mean));
        assert_eq!(after.tensors.embeddings, start.tensors.embeddings);
    }
    Ok(())
}

#[test]
fn kind_33_and_34_a_tensor_that_a_step_makes_no_number_is_told() -> Result<()> {
    let config = with(gated_delta(), Schedule::Dynamic);
    let name = "model.layers.1.attn.dla.tau";
    let mut start = snapshot(&config, 1.2)?;
    // A mean left over from a gradient that the next step, at this rate, turns into an infinite threshold.
    let dla = start.mean.blocks[1].dla.as_mut().expect("DLA's tensors");
    dla.tau[2] = -1e10;
    let Some(mut device) = device(&config, start.clone())? else {
        return Ok(());
    };
    let report = device.step(&[batch(0)], pace(1e34))?;
    assert!(report.loss.is_finite() && !report.skipped, "{report:?}");
    assert_eq!(report.lost.as_deref(), Some(name));
    let report = cpu(&config, start)?.step(&[batch(0)], pace(1e34))?;
    assert_eq!(report.lost.as_deref(), Some(name));
    Ok(())
}

#[test]
fn infinite_thresholds_train_as_a_single_state_does_and_stay() -> Result<()> {
    let config = with(mamba2(), Schedule::Dynamic);
    let start = snapshot(&config, f32::INFINITY)?;
    let Some(mut device) = device(&config, start.clone())? else {
        return Ok(());
    };
    let mut cpu = cpu(&config, start.clone())?;
    for step in 0..3 {
        let want = cpu.step(&[batch(step)], pace(3e-3))?;
        let got = device.step(&[batch(step)], pace(3e-3))?;
        compare(&format!("step {step}"), &got, &want);
    }
    for (layer, block) in device.export()?.tensors.blocks.iter().enumerate() {
        let tau = block.dla.as_ref().map(|dla| &dla.tau[..]);
        assert_eq!(tau, Some(&[f32::INFINITY; 4][..]), "layer {layer}");
    }
    Ok(())
}

#[test]
fn a_theta_without_meaning_is_refused() -> Result<()> {
    let config = with(mamba2(), Schedule::Dynamic);
    let start = snapshot(&config, 1.2)?;
    let Some(mut device) = device(&config, start.clone())? else {
        return Ok(());
    };
    let mut cpu = cpu(&config, start)?;
    for theta in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-50, 1e39] {
        let pace = Pace { rate: 1e-3, theta };
        for engine in [&mut device as &mut dyn Engine, &mut cpu] {
            let error = engine.step(&[batch(0)], pace).expect_err("no meaning");
            assert!(error.is_input() && error.argument() == "theta", "{error}");
        }
    }
    Ok(())
}

#[test]
fn more_tokens_than_levels_are_refused() -> Result<()> {
    let config = with(mamba2(), Schedule::Fenwick);
    let start = snapshot(&config, 1.2)?;
    let Some(mut device) = device(&config, start.clone())? else {
        return Ok(());
    };
    let mut cpu = cpu(&config, start)?;
    let pace = Pace {
        rate: 1e-3,
        theta: 0.1,
    };
    for engine in [&mut device as &mut dyn Engine, &mut cpu] {
        let error = engine.step(&[batch_of(0, 65)], pace);
        let error = error.expect_err("65 tokens need 8 levels");
        assert!(
            error.is_input() && error.argument() == "capacity",
            "{error}"
        );
    }
    Ok(())
}
