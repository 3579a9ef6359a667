//! The case table on the device, against the reference in double precision.

use dla_core::dla::recurrent;
use dla_core::{Backbone, Config, Decisions, MergeCost, Output, Schedule};
use dla_tests::cases::{Arrays, Case, cases, dims};
use dla_tests::gpu::{checked_gpu, gpu, gpus};
use dla_tests::pieces::in_pieces;
use dla_tests::tolerance::{Tolerance, assert_output_near};
use dla_wgpu::op::Path;
use dla_wgpu::{Dispatch, Float, Gpu, op};

fn reference(case: &Case, arrays: &Arrays) -> Output<f64> {
    recurrent::forward(&case.dims, &case.config, &arrays.wide().inputs(None), None)
        .unwrap_or_else(|error| panic!("{}: {error}", case.name))
}

/// The device's own decisions are the rule's or near ties, and its numbers the reference's under them; then the
/// same under the reference's decisions, replayed.
fn check(gpu: &Gpu, case: &Case, options: &op::Options) {
    check_pieces(gpu, case, &[case.dims.tokens], options);
}

/// The same for a call cut into calls of these sizes.
fn check_pieces(gpu: &Gpu, case: &Case, sizes: &[usize], options: &op::Options) {
    let arrays = match options.float {
        Float::F32 => case.arrays(),
        Float::F16 => case.arrays().halved(),
    };
    let run = |replay: Option<&Decisions>| in_pieces(gpu, case, &arrays, replay, sizes, options);
    // In f16 three roundings to 11 bits: the weighted query, the state's version, the output.
    let tolerance = Tolerance {
        o: match options.float {
            Float::F32 => 1e-4,
            Float::F16 => 1.5e-3,
        },
        info: case.info_tolerance,
    };
    let own = run(None);
    let judged = case.judge(&arrays, &own.trace.decisions);
    let judged = judged.unwrap_or_else(|error| panic!("{}: {error}", case.name));
    if let Some(fault) = judged.fault {
        panic!("{}: {fault}; rerun with CASE={}", case.name, case.name);
    }
    assert_output_near(case.name, &own, &judged.output, tolerance);
    if case.config.schedule == Schedule::Dynamic {
        let expected = reference(case, &arrays);
        let replayed = run(Some(&expected.trace.decisions));
        assert_output_near(case.name, &replayed, &expected, tolerance);
    }
}

/// The table, or the case that `CASE` names.
fn chosen() -> impl Iterator<Item = Case> {
    let wanted = std::env::var("CASE").ok();
    let is_wanted = move |case: &Case| wanted.as_deref().is_none_or(|name| name == case.name);
    cases().into_iter().filter(is_wanted)
}

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
    for case in chosen() {
        check(gpu, &case, &options);
    }
}

/// Chunks of the tables. What is compiled for one serves the others, and gradients.
const CHUNK: usize = 64;
/// The same on the device with checks and no features.
const CHECKED_CHUNK: usize = 16;

fn in_chunks(chunk: usize) -> op::Options {
    op::Options {
        chunk: Some(chunk),
        ..Default::default()
    }
}

#[test]
fn every_case_equals_the_reference() {
    let Some(gpu) = gpu() else { return };
    for case in chosen() {
        check(gpu, &case, &in_chunks(CHUNK));
    }
}

#[test]
fn every_case_equals_the_reference_with_checks_on_and_no_features() {
    let Some(gpu) = checked_gpu() else { return };
    for case in chosen() {
        check(gpu, &case, &in_chunks(CHECKED_CHUNK));
    }
}

#[test]
fn every_size_of_chunk_equals_the_reference() {
    for gpu in gpus() {
        for chunk in [16, 32, 64] {
            for backbone in [Backbone::Decay, Backbone::Delta] {
                let mut case = Case::new("chunks", dims([2, 130, 2, 1, 16, 12, 5]));
                case.config = Config::new(backbone);
                check(gpu, &case, &in_chunks(chunk));
            }
        }
    }
}

fn check_steps(gpu: &Gpu) {
    let options = op::Options {
        path: Path::Steps,
        ..Default::default()
    };
    for case in chosen() {
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

/// Values wider than the chunk passes take are walked token by token; what no pass takes is refused.
#[test]
fn wide_values_are_walked_token_by_token() {
    let Some(gpu) = gpu() else { return };
    let options = op::Options::default();
    for backbone in [Backbone::Plain, Backbone::Decay, Backbone::Delta] {
        let mut case = Case::new("wide values", dims([2, 37, 2, 1, 9, 512, 3]));
        case.config = Config::new(backbone);
        check(gpu, &case, &options);
        check_pieces(gpu, &case, &[20, 1, 16], &options);
    }
    for (width, path) in [(512, Path::Chunks), (301, Path::Auto)] {
        let refused = Case::new("refused", dims([1, 4, 1, 1, 9, width, 3]));
        let options = op::Options { path, ..options };
        let arrays = refused.arrays();
        let inputs = arrays.inputs(None);
        let run = op::run(gpu, &refused.dims, &refused.config, &inputs, None, &options);
        let error = run.expect_err("refused");
        assert!(error.is_unsupported(), "{error}");
        assert!(error.to_string().contains("value_dim"), "{error}");
    }
}

/// Chunks, then single tokens around the middle, then chunks again.
fn check_single_tokens(gpu: &Gpu, chunk: usize) {
    let options = in_chunks(chunk);
    for case in chosen() {
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
    check_single_tokens(gpu, CHUNK);
}

#[test]
fn every_case_equals_the_reference_in_single_tokens_with_checks_on_and_no_features() {
    let Some(gpu) = checked_gpu() else { return };
    check_single_tokens(gpu, CHECKED_CHUNK);
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
        let dispatches = bound.dispatches().iter();
        dispatches.map(Dispatch::name).collect::<Vec<_>>()
    };
    let given = op::Decider::Given { measure: true };
    let two = ["step_decide", "step_move"];
    assert_eq!(passes(&case, op::Decider::Scores), two);
    case.config.merge = MergeCost::Ward;
    assert_eq!(passes(&case, given), two);
    assert_eq!(passes(&case, op::Decider::Scores), ["step"]);
}
