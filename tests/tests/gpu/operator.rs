//! The operator on the device against the reference in double precision.

use dla_core::dla::recurrent;
use dla_core::{Dims, MergeCost, Output, Schedule, Trace};
use dla_tests::cases::{Case, cases, dims};
use dla_tests::gpu::{checked_gpu, gpu};
use dla_tests::pieces::in_pieces;
use dla_tests::tolerance::{assert_near, assert_scores_near, position};
use dla_wgpu::op::Path;
use dla_wgpu::{Float, Gpu, op};

/// Scores nearer to τ than this, or costs nearer to each other, may be decided either way.
const MARGIN: f32 = 1e-4;

fn reference(case: &Case, replay: bool, trace: Option<&Trace>) -> Output<f64> {
    let wide = case.arrays().wide();
    let decisions = trace.filter(|_| replay).map(|trace| &trace.decisions);
    recurrent::forward(&case.dims, &case.config, &wide.inputs(decisions), None)
        .unwrap_or_else(|error| panic!("{}: {error}", case.name))
}

/// The first token whose decision differs, unless it was a near tie.
fn first_difference(case: &Case, got: &Trace, expected: &Trace) -> Option<usize> {
    let differs = |&at: &usize| {
        got.decisions.get(at) != expected.decisions.get(at) || got.count[at] != expected.count[at]
    };
    let order = time_order(&case.dims);
    order.into_iter().find(differs)
}

fn time_order(dims: &Dims) -> Vec<usize> {
    (0..dims.token_heads()).collect()
}

fn check(gpu: &Gpu, case: &Case, options: &op::Options) {
    check_pieces(gpu, case, &[case.dims.tokens], options);
}

/// The same for a call cut into calls of these sizes.
fn check_pieces(gpu: &Gpu, case: &Case, sizes: &[usize], options: &op::Options) {
    let expected = reference(case, false, None);
    let arrays = case.arrays();
    let own = in_pieces(gpu, case, &arrays, None, sizes, options);
    if let Some(at) = first_difference(case, &own.trace, &expected.trace) {
        let score = expected.trace.score[at];
        eprintln!(
            "{}: decisions part at {:?}, score {score}, {:?} against {:?}",
            case.name,
            position(&case.dims, at),
            own.trace.decisions.get(at),
            expected.trace.decisions.get(at)
        );
        let merge_only = own.trace.decisions.boundary[at] == expected.trace.decisions.boundary[at];
        assert!(
            merge_only || (score - case.tau).abs() < MARGIN,
            "{}: not a near tie",
            case.name
        );
    }
    let got = if case.config.schedule == Schedule::Dynamic {
        let decisions = Some(&expected.trace.decisions);
        in_pieces(gpu, case, &arrays, decisions, sizes, options)
    } else {
        own
    };
    compare(case, &got, &expected);
}

fn compare(case: &Case, got: &Output<f32>, expected: &Output<f64>) {
    assert_eq!(
        got.trace.decisions, expected.trace.decisions,
        "{}",
        case.name
    );
    assert_eq!(got.trace.count, expected.trace.count, "{}", case.name);
    assert_eq!(got.cache.n, expected.cache.n, "{}", case.name);
    assert_scores_near(case.name, &got.trace.score, &expected.trace.score);
    assert_near(case.name, "o", &got.o, &expected.o, 1e-4);
    assert_near(
        case.name,
        "states",
        &got.cache.states,
        &expected.cache.states,
        1e-4,
    );
    assert_near(
        case.name,
        "info",
        &got.cache.info,
        &expected.cache.info,
        case.info_tolerance,
    );
}

fn chosen(cases: Vec<Case>) -> impl Iterator<Item = Case> {
    let wanted = std::env::var("CASE").ok();
    cases
        .into_iter()
        .filter(move |case| wanted.as_deref().is_none_or(|name| name == case.name))
}

/// Half-precision inputs, outputs and state versions: the reference runs on the same rounded inputs and decisions.
///
/// 1.5e-3 allows for three roundings to 11 bits: the weighted query, the state's version, the output.
#[test]
fn every_case_in_half_precision_is_near_the_reference() {
    let Some(gpu) = gpu() else { return };
    if !gpu.variant().f16 {
        eprintln!("SKIP: half precision, the device lacks shader-f16");
        return;
    }
    let options = op::Options {
        float: Float::F16,
        ..Default::default()
    };
    for case in chosen(cases()) {
        let arrays = case.arrays().halved();
        let wide = arrays.wide();
        let expected = recurrent::forward(&case.dims, &case.config, &wide.inputs(None), None);
        let expected = expected.unwrap_or_else(|error| panic!("{}: {error}", case.name));
        let dynamic = case.config.schedule == Schedule::Dynamic;
        let replay = dynamic.then_some(&expected.trace.decisions);
        let got = op::run(
            gpu,
            &case.dims,
            &case.config,
            &arrays.inputs(replay),
            None,
            &options,
        );
        let got = got.unwrap_or_else(|error| panic!("{}: {error}", case.name));
        assert_eq!(
            got.trace.decisions, expected.trace.decisions,
            "{}",
            case.name
        );
        assert_scores_near(case.name, &got.trace.score, &expected.trace.score);
        assert_near(case.name, "o", &got.o, &expected.o, 1.5e-3);
        assert_near(
            case.name,
            "states",
            &got.cache.states,
            &expected.cache.states,
            1e-4,
        );
    }
}

#[test]
fn every_case_equals_the_reference() {
    let Some(gpu) = gpu() else { return };
    for case in chosen(cases()) {
        for chunk in [16, 64] {
            check(
                gpu,
                &case,
                &op::Options {
                    chunk: Some(chunk),
                    ..Default::default()
                },
            );
        }
    }
}

#[test]
fn every_case_equals_the_reference_with_checks_on_and_no_features() {
    let Some(gpu) = checked_gpu() else { return };
    for case in chosen(cases()) {
        check(
            gpu,
            &case,
            &op::Options {
                chunk: Some(32),
                ..Default::default()
            },
        );
    }
}

fn check_steps(gpu: &Gpu) {
    let options = op::Options {
        path: Path::Steps,
        ..Default::default()
    };
    for case in chosen(cases()) {
        check(gpu, &case, &options);
    }
}

#[test]
fn every_case_equals_the_reference_token_by_token() {
    let Some(gpu) = gpu() else { return };
    check_steps(gpu);
}

#[test]
fn every_case_equals_the_reference_token_by_token_with_checks_on_and_no_features() {
    let Some(gpu) = checked_gpu() else { return };
    check_steps(gpu);
}

/// Chunks, then single tokens around the middle, then chunks again.
fn check_single_tokens(gpu: &Gpu) {
    let options = op::Options {
        chunk: Some(16),
        ..Default::default()
    };
    for case in chosen(cases()) {
        let singles = case.dims.tokens.min(14);
        let before = (case.dims.tokens - singles) / 2;
        let mut sizes = vec![1; 2 + singles];
        sizes[0] = before;
        sizes[1 + singles] = case.dims.tokens - singles - before;
        check_pieces(gpu, &case, &sizes, &options);
    }
}

#[test]
fn every_case_equals_the_reference_in_single_tokens_between_chunks() {
    let Some(gpu) = gpu() else { return };
    check_single_tokens(gpu);
}

#[test]
fn every_case_equals_the_reference_in_single_tokens_with_checks_on_and_no_features() {
    let Some(gpu) = checked_gpu() else { return };
    check_single_tokens(gpu);
}

#[test]
fn one_token_is_decided_and_moved_by_two_passes_unless_merges_weigh_the_matrices() {
    let Some(gpu) = gpu() else { return };
    let one = |name, sizes| Case::new(name, dims(sizes));
    let mut case = one("passes", [1, 1, 48, 1, 128, 64, 30]);
    let passes = |case: &Case, decider| {
        let options = op::Options::default();
        let operator = op::Operator::new(gpu, &case.dims, &case.config, decider, &options);
        let operator = pollster::block_on(operator).expect("an operator");
        let arrays = pollster::block_on(operator.arrays()).expect("arrays");
        let cache = pollster::block_on(operator.cache()).expect("a cache");
        let bound = pollster::block_on(operator.bind(&arrays, &cache)).expect("bindings");
        bound.names()
    };
    let given = op::Decider::Given { measure: true };
    let two = ["step_decide", "step_move"];
    assert_eq!(passes(&case, op::Decider::Scores), two);
    case.config.merge = MergeCost::Ward;
    assert_eq!(passes(&case, given), two);
    assert_eq!(passes(&case, op::Decider::Scores), ["step"]);
}
