//! Training on a device beside training on the CPU.

use dla_core::dla::gate::Gate;
use dla_core::model::training::AdamWOptions;
use dla_core::model::{
    DlaConfig, Family, GatedDeltaConfig, Initial, Mamba2Config, MixerConfig, ModelConfig,
    ModelTensors,
};
use dla_core::{Config, Result, Schedule};
use dla_tests::gpu::gpu;
use dla_train::{Batch, CpuEngine, DeviceEngine, Engine, Snapshot};

fn with(mixer: MixerConfig, family: Family, tied: bool, schedule: Schedule) -> ModelConfig {
    let mut config = ModelConfig {
        family,
        hidden: 12,
        layers: 2,
        vocabulary: 19,
        tied,
        norm_epsilon: 1e-5,
        mixer,
        dla: None,
    };
    let operator = Config {
        schedule,
        ..Config::new(config.backbone())
    };
    config.dla = Some(DlaConfig {
        capacity: 6,
        operator,
    });
    config
}

fn mamba2(schedule: Schedule) -> ModelConfig {
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
    with(MixerConfig::Mamba2(mixer), Family::Mamba2, true, schedule)
}

fn gated_delta(schedule: Schedule) -> ModelConfig {
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
    let family = Family::GatedDeltaNet;
    with(MixerConfig::GatedDelta(mixer), family, false, schedule)
}

fn snapshot(config: &ModelConfig) -> Result<Snapshot> {
    let mut initial = Initial::new(config, 7, 1.2)?;
    Ok(Snapshot::untrained(ModelTensors::load(
        config,
        &mut initial,
    )?))
}

/// A batch of step `step`: 3 sequences of 21 tokens, some targets ignored.
fn batch(step: u32) -> Batch {
    let id = |i: u32| (i * i * 7 + step * 5 + i / 3) % 19;
    let ids: Vec<u32> = (0..63).map(id).collect();
    let targets = (0..63).map(|i| {
        if i % 21 == 20 || i % 5 == 3 {
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

#[test]
fn ten_steps_equal_the_references() -> Result<()> {
    let Some(gpu) = gpu() else { return Ok(()) };
    let schedules = [Schedule::Dynamic, Schedule::Single, Schedule::Fenwick];
    for config in schedules
        .into_iter()
        .flat_map(|s| [mamba2(s), gated_delta(s)])
    {
        let options = AdamWOptions::default();
        let start = snapshot(&config)?;
        let gate = Gate::default();
        let mut cpu = CpuEngine::new(config.clone(), gate, options, start.clone())?;
        let mut device = DeviceEngine::new(gpu, config.clone(), gate, options, start)?;
        for step in 0..10 {
            let batches = [batch(2 * step), batch(2 * step + 1)];
            let want = cpu.step(&batches, 3e-3)?;
            let got = device.step(&batches, 3e-3)?;
            let name = format!(
                "{}, {:?}, step {step}",
                config.family,
                config.operator().schedule
            );
            let near = |got: f64, want: f64| (got - want).abs() <= 1e-4 * want.abs();
            assert!(
                near(got.loss, want.loss),
                "{name}: loss {} for {}",
                got.loss,
                want.loss
            );
            let (norm, wanted) = (got.gradient_norm, want.gradient_norm);
            assert!(
                (norm - wanted).abs() <= 1e-3 * wanted,
                "{name}: norm {norm} for {wanted}"
            );
            assert_eq!((got.counted, got.skipped), (want.counted, false), "{name}");
        }
        let (got, want) = (device.export()?, cpu.export()?);
        assert_eq!(got.moves, want.moves);
        let far = distance(&got.tensors, &want.tensors);
        assert!(far < 1e-3, "{}: tensors {far:.1e} away", config.family);
        let (got, want) = (device.evaluate(&batch(3))?, cpu.evaluate(&batch(3))?);
        let gaps = got
            .losses
            .iter()
            .zip(&want.losses)
            .map(|(a, b)| (a - b).abs());
        assert!(gaps.fold(0.0, f32::max) < 1e-2, "losses of targets");
    }
    Ok(())
}

#[test]
fn going_on_from_an_export_is_going_on_bit_for_bit() -> Result<()> {
    let Some(gpu) = gpu() else { return Ok(()) };
    for config in [mamba2(Schedule::Dynamic), gated_delta(Schedule::Dynamic)] {
        let (options, gate) = (AdamWOptions::default(), Gate::default());
        let new = |start| DeviceEngine::new(gpu, config.clone(), gate, options, start);
        let mut whole = new(snapshot(&config)?)?;
        for step in 0..3 {
            whole.step(&[batch(step)], 1e-3)?;
        }
        let mut again = new(whole.export()?)?;
        assert_eq!(again.export()?, whole.export()?);
        for step in 3..6 {
            assert_eq!(
                again.step(&[batch(step)], 1e-3)?,
                whole.step(&[batch(step)], 1e-3)?
            );
        }
        assert_eq!(again.export()?, whole.export()?);
    }
    Ok(())
}

#[test]
fn kind_33_and_34_a_gradient_that_is_no_number_moves_nothing() -> Result<()> {
    let Some(gpu) = gpu() else { return Ok(()) };
    let config = mamba2(Schedule::Dynamic);
    let mut start = snapshot(&config)?;
    start.tensors.norm[3] = f32::NAN;
    let (options, gate) = (AdamWOptions::default(), Gate::default());
    let mut device = DeviceEngine::new(gpu, config, gate, options, start.clone())?;
    let report = device.step(&[batch(0)], 1e-3)?;
    assert!(report.skipped && !report.loss.is_finite(), "{report:?}");
    let after = device.export()?;
    assert_eq!((after.moves, &after.mean), (0, &start.mean));
    assert_eq!(after.tensors.embeddings, start.tensors.embeddings);
    Ok(())
}
