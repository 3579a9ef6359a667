//! Steps in f16: near the reference, and their loss's scale.

use std::ops::Range;

use dla_core::Result;
use dla_core::Schedule;
use dla_core::dla::gate::GateMode;
use dla_core::model::ModelConfig;
use dla_core::model::training::AdamWOptions;
use dla_tests::gpu::{checked_gpu, gpu};
use dla_train::{
    ComputeSettings, DeviceEngine, Engine, LossScale, LossScaling, Precision, Snapshot, StepReport,
};
use dla_wgpu::Gpu;

use super::{
    STEPS, attention, batch, batch_of, cpu, distance, gated_delta, mamba2, pace, snapshot, with,
};

/// Relative distances of losses and of norms from the reference's.
const LOSS: f64 = 1e-4;
const NORM: f64 = 4e-3;
/// That of the first step's gradients: f32 would be nearer.
const GRADIENTS: Range<f64> = 2e-5..1.3e-3;
/// A scale that takes every gradient out of the finite numbers.
const HUGE: f32 = 1e36;

fn scaled(loss_scale: LossScaling) -> ComputeSettings {
    ComputeSettings {
        precision: Precision::F16,
        loss_scale,
    }
}

fn engine(
    gpu: &Gpu,
    config: &ModelConfig,
    loss_scale: LossScaling,
    start: Snapshot,
) -> Result<DeviceEngine> {
    let (gate, options) = (GateMode::default(), AdamWOptions::default());
    let compute = scaled(loss_scale);
    DeviceEngine::new(gpu, config.clone(), gate, options, &compute, start)
}

/// The device, where it has f16.
fn half_gpu() -> Option<&'static Gpu> {
    let gpu = gpu()?;
    if !gpu.variant().f16 {
        eprintln!("SKIP: training in f16, the device lacks shader-f16");
    }
    gpu.variant().f16.then_some(gpu)
}

/// A model of each family, and the threshold that it starts with.
fn models() -> [(ModelConfig, f32); 3] {
    let dynamic = |config| with(config, Schedule::Dynamic);
    [
        (dynamic(mamba2()), 0.25),
        (dynamic(gated_delta()), 1.4),
        (attention(true), 1.2),
    ]
}

#[test]
fn ten_steps_in_f16_are_near_the_references() -> Result<()> {
    let Some(gpu) = half_gpu() else { return Ok(()) };
    for (config, tau) in models() {
        let start = snapshot(&config, tau)?;
        let mut device = engine(gpu, &config, LossScaling::DYNAMIC, start.clone())?;
        assert_eq!(device.precision(), Precision::F16);
        let mut cpu = cpu(&config, start)?;
        for step in 0..STEPS {
            let number = 2 * step as u32;
            let batches = [batch_of(number, 21), batch_of(number + 1, 37)];
            let want = cpu.step(&batches, pace(3e-3))?;
            let got = device.step(&batches, pace(3e-3))?;
            let far = |got: f64, want: f64| (got - want).abs() / want;
            let (loss, norm) = (
                far(got.loss, want.loss),
                far(got.gradient_norm, want.gradient_norm),
            );
            let name = format!("{}, step {step}", config.family);
            assert!(loss <= LOSS, "{name}: loss {loss:.1e} away");
            assert!(norm <= NORM, "{name}: norm {norm:.1e} away");
            assert_eq!((got.skipped, got.loss_scale), (false, Some(65_536.0)));
            if step == 0 {
                let far = distance(&device.export()?.mean, &cpu.export()?.mean);
                assert!(GRADIENTS.contains(&far), "{name}: gradients {far:.1e} away");
            }
        }
    }
    Ok(())
}

#[test]
fn a_scale_by_a_power_of_two_changes_no_bit() -> Result<()> {
    let Some(gpu) = half_gpu() else { return Ok(()) };
    for (config, tau) in models() {
        let start = snapshot(&config, tau)?;
        let trained = |scale| -> Result<(Vec<StepReport>, Snapshot)> {
            let mut engine = engine(gpu, &config, LossScaling::Fixed(scale), start.clone())?;
            let steps = (0..2).map(|step| engine.step(&[batch(step)], pace(3e-3)));
            let reports = steps.collect::<Result<Vec<_>>>()?;
            Ok((reports, engine.export()?))
        };
        let ((plain, one), (scaled, other)) = (trained(1.0)?, trained(1024.0)?);
        assert_eq!(one, other, "{}", config.family);
        for (plain, scaled) in plain.iter().zip(&scaled) {
            assert_eq!(
                (plain.loss_scale, scaled.loss_scale),
                (Some(1.0), Some(1024.0))
            );
            assert_eq!(plain.gradient_norm, scaled.gradient_norm);
        }
    }
    Ok(())
}

#[test]
fn kind_34_gradients_that_overflow_are_left_out_and_halve_the_scale() -> Result<()> {
    let Some(gpu) = half_gpu() else { return Ok(()) };
    for (config, tau) in models() {
        let mut start = snapshot(&config, tau)?;
        start.loss_scale = Some(LossScale {
            scale: HUGE,
            good: 7,
        });
        let mut dynamic = engine(gpu, &config, LossScaling::DYNAMIC, start.clone())?;
        let report = dynamic.step(&[batch(0)], pace(1e-3))?;
        assert!(report.skipped && report.loss.is_finite(), "{report:?}");
        assert_eq!(report.loss_scale, Some(HUGE));
        let halved = Some(LossScale {
            scale: HUGE / 2.0,
            good: 0,
        });
        let untouched = Snapshot {
            loss_scale: halved,
            ..start.clone()
        };
        assert!(dynamic.export()? == untouched, "nothing else has moved");

        let mut fixed = engine(gpu, &config, LossScaling::Fixed(HUGE), start.clone())?;
        for _ in 0..2 {
            let report = fixed.step(&[batch(0)], pace(1e-3))?;
            assert_eq!((report.skipped, report.loss_scale), (true, Some(HUGE)));
        }
        let untouched = Snapshot {
            loss_scale: None,
            ..start
        };
        assert!(fixed.export()? == untouched, "nothing has moved");
    }
    Ok(())
}

#[test]
fn going_on_in_f16_is_going_on_bit_for_bit() -> Result<()> {
    let Some(gpu) = half_gpu() else { return Ok(()) };
    for (config, tau) in models() {
        let mut start = snapshot(&config, tau)?;
        // The scale doubles on the way.
        start.loss_scale = Some(LossScale {
            scale: 4096.0,
            good: 196,
        });
        let mut whole = engine(gpu, &config, LossScaling::DYNAMIC, start)?;
        for step in 0..2 {
            whole.step(&[batch(step)], pace(1e-3))?;
        }
        let mut again = engine(gpu, &config, LossScaling::DYNAMIC, whole.export()?)?;
        for step in 2..5 {
            let (again, whole) = (
                again.step(&[batch(step)], pace(1e-3))?,
                whole.step(&[batch(step)], pace(1e-3))?,
            );
            assert_eq!(again, whole);
            let scale = if step < 4 { 4096.0 } else { 8192.0 };
            assert_eq!(again.loss_scale, Some(scale), "step {step}");
        }
        assert!(again.export()? == whole.export()?, "{}", config.family);
    }
    Ok(())
}

#[test]
fn kind_17_a_device_without_f16_refuses_it_and_says_what_to_do() -> Result<()> {
    let Some(gpu) = checked_gpu() else {
        return Ok(());
    };
    let config = mamba2();
    let start = snapshot(&config, 1.2)?;
    let refused = engine(gpu, &config, LossScaling::DYNAMIC, start);
    let error = refused.map(drop).expect_err("f16 needs the feature");
    assert!(error.is_unsupported(), "{error}");
    for told in ["shader-f16", "precision = \"f32\""] {
        assert!(error.to_string().contains(told), "{error}");
    }
    Ok(())
}

#[test]
fn a_scale_that_is_no_positive_number_is_refused() -> Result<()> {
    let Some(gpu) = half_gpu() else { return Ok(()) };
    let config = attention(true);
    for scale in [0.0, -2.0, f32::NAN, f32::INFINITY, 1e-40] {
        let mut start = snapshot(&config, 1.2)?;
        let fixed = engine(gpu, &config, LossScaling::Fixed(scale), start.clone());
        assert!(fixed.map(drop).expect_err("no scale").is_input());
        start.loss_scale = Some(LossScale { scale, good: 0 });
        let saved = engine(gpu, &config, LossScaling::DYNAMIC, start);
        assert!(saved.map(drop).expect_err("no scale").is_input());
    }
    Ok(())
}
