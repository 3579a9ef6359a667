//! Gradients on the device, against the reference's in double precision under the device's own decisions.

use dla_core::dla::backward::{self, Gradients};
use dla_core::dla::gate::{Gate, GateMode};
use dla_core::{Decisions, Schedule};
use dla_tests::cases::{Case, Draw, cases};
use dla_tests::gpu::{checked_gpu, gpu};
use dla_tests::tolerance::assert_near;
use dla_wgpu::Gpu;
use dla_wgpu::op::{self, Loss, Options};

/// Relative rms of any gradient.
const TOLERANCE: f64 = 1e-3;

/// The table, or the case that `CASE` names.
fn chosen() -> impl Iterator<Item = Case> {
    let wanted = std::env::var("CASE").ok();
    let is_wanted = move |case: &Case| wanted.as_deref().is_none_or(|name| name == case.name);
    cases().into_iter().filter(is_wanted)
}

/// Normal numbers of the outputs' shape.
fn drawn(case: &Case) -> Vec<f32> {
    let mut draw = Draw::new(41);
    (0..case.dims.value_len()).map(|_| draw.normal()).collect()
}

/// Both gates' gradients are near the reference's under the decisions that the device makes.
fn check(gpu: &Gpu, case: &Case, options: &Options) {
    let arrays = case.arrays();
    let run = op::run(
        gpu,
        &case.dims,
        &case.config,
        &arrays.inputs(None),
        None,
        options,
    );
    let decisions = run
        .unwrap_or_else(|error| panic!("{}: {error}", case.name))
        .trace
        .decisions;
    for mode in [GateMode::Hard, GateMode::StraightThrough] {
        check_gate(gpu, case, &decisions, mode, options);
    }
}

fn check_gate(gpu: &Gpu, case: &Case, decisions: &Decisions, mode: GateMode, options: &Options) {
    let (dims, config, arrays) = (&case.dims, &case.config, case.arrays());
    let replay = (config.schedule == Schedule::Dynamic).then_some(decisions);
    let d_o = drawn(case);
    let gate = Gate {
        mode,
        ..Gate::default()
    };
    let loss = Loss { d_o: &d_o, gate };
    let got = op::gradients(
        gpu,
        dims,
        config,
        &arrays.inputs(replay),
        None,
        &loss,
        options,
    )
    .unwrap_or_else(|error| panic!("{}: {error}", case.name));
    let wide: Vec<f64> = d_o.iter().map(|&x| f64::from(x)).collect();
    let arrays = arrays.wide();
    let expected = backward::backward(dims, config, &arrays.inputs(replay), None, &wide, &gate)
        .unwrap_or_else(|error| panic!("{}: {error}", case.name));
    assert_gradients_near(case.name, &got, &expected);
}

#[track_caller]
fn assert_gradients_near(name: &str, got: &Gradients<f32>, expected: &Gradients<f64>) {
    let near = |array, got: &[f32], expected: &[f64]| {
        let rms = dla_tests::tolerance::relative_rms(got, expected);
        if std::env::var("SHOW").is_ok() {
            eprintln!("{name} {array} {rms:.2e}");
        } else {
            assert_near(name, array, got, expected, TOLERANCE);
        }
    };
    near("dq", &got.q, &expected.q);
    near("dk", &got.k, &expected.k);
    near("dv", &got.v, &expected.v);
    near("dlambda", &got.lambda, &expected.lambda);
    near("dh0", &got.states, &expected.states);
    near("dtau", &got.tau, &expected.tau);
    for (array, got, expected) in [
        ("dg", &got.g, &expected.g),
        ("dbeta", &got.beta, &expected.beta),
    ] {
        assert_eq!(got.is_some(), expected.is_some(), "{name}, {array}");
        if let (Some(got), Some(expected)) = (got, expected) {
            near(array, got, expected);
        }
    }
}

#[test]
fn every_cases_gradients_are_the_references() {
    let Some(gpu) = gpu() else { return };
    for case in chosen() {
        for chunk in [16, 64] {
            check(
                gpu,
                &case,
                &Options {
                    chunk: Some(chunk),
                    ..Default::default()
                },
            );
        }
    }
}

#[test]
fn every_cases_gradients_are_the_references_with_checks_on_and_no_features() {
    let Some(gpu) = checked_gpu() else { return };
    for case in chosen() {
        check(
            gpu,
            &case,
            &Options {
                chunk: Some(32),
                ..Default::default()
            },
        );
    }
}
