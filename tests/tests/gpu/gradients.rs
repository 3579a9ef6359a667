//! Gradients on the device, against the reference's in double precision under the device's own decisions.

use std::path::Path;

use dla_cli::case;
use dla_cli::tensors::TensorFile;
use dla_core::dla::backward::{self, Gradients};
use dla_core::dla::gate::{Gate, GateMode};
use dla_core::{Backbone, Cache, Decisions, Dims, Schedule};
use dla_tests::cases::{Arrays, Case, Draw, cases, dims};
use dla_tests::gpu::{checked_gpu, gpu};
use dla_tests::rig::{GUARD, POISON, Rig, poisoned};
use dla_tests::tolerance::assert_near;
use dla_wgpu::op::{self, Backward, GradientArrays, Loss, Options};
use dla_wgpu::{Float, Gpu};

/// Relative rms of any gradient by an array.
const TOLERANCE: f64 = 1e-3;

/// One call, and how its gradients are taken.
struct Call<'a> {
    case: &'a Case,
    arrays: &'a Arrays,
    cache: Option<&'a Cache<f32>>,
    mode: GateMode,
}

/// The table, or the case that `CASE` names.
fn chosen() -> impl Iterator<Item = Case> {
    let wanted = std::env::var("CASE").ok();
    let is_wanted = move |case: &Case| wanted.as_deref().is_none_or(|name| name == case.name);
    cases().into_iter().filter(is_wanted)
}

pub(super) fn in_chunks(chunk: usize) -> Options {
    Options {
        chunk: Some(chunk),
        ..Default::default()
    }
}

/// Normal numbers of the outputs' shape.
pub(super) fn drawn(dims: &Dims) -> Vec<f32> {
    let mut draw = Draw::new(41);
    (0..dims.value_len()).map(|_| draw.normal()).collect()
}

fn run(gpu: &Gpu, call: &Call<'_>, options: &Options) -> dla_core::Output<f32> {
    let Case {
        dims, config, name, ..
    } = call.case;
    op::run(
        gpu,
        dims,
        config,
        &call.arrays.inputs(None),
        call.cache,
        options,
    )
    .unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The device's gradients under the decisions that it made.
fn on_device(
    gpu: &Gpu,
    call: &Call<'_>,
    decisions: Option<&Decisions>,
    options: &Options,
) -> Gradients<f32> {
    let Case {
        dims, config, name, ..
    } = call.case;
    let d_o = drawn(dims);
    let gate = Gate {
        mode: call.mode,
        ..Gate::default()
    };
    let loss = Loss { d_o: &d_o, gate };
    let inputs = call.arrays.inputs(decisions);
    op::gradients(gpu, dims, config, &inputs, call.cache, &loss, options)
        .unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The reference's gradients under the same decisions.
fn reference(call: &Call<'_>, decisions: Option<&Decisions>) -> Gradients<f64> {
    let Case {
        dims, config, name, ..
    } = call.case;
    let d_o: Vec<f64> = drawn(dims).into_iter().map(f64::from).collect();
    let gate = Gate {
        mode: call.mode,
        ..Gate::default()
    };
    let (wide, cache) = (call.arrays.wide(), call.cache.map(Cache::cast));
    let inputs = wide.inputs(decisions);
    backward::backward(dims, config, &inputs, cache.as_ref(), &d_o, &gate)
        .unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A call's gradients are near the reference's under the decisions that the device makes.
fn check_call(gpu: &Gpu, call: &Call<'_>, options: &Options, tolerance: f64) {
    let decisions = run(gpu, call, options).trace.decisions;
    let dynamic = call.case.config.schedule == Schedule::Dynamic;
    let replay = dynamic.then_some(&decisions);
    let got = on_device(gpu, call, replay, options);
    assert_gradients_near(call.case, &got, &reference(call, replay), tolerance);
}

fn check(gpu: &Gpu, case: &Case, mode: GateMode, options: &Options) {
    let arrays = case.arrays();
    let call = Call {
        case,
        arrays: &arrays,
        cache: None,
        mode,
    };
    check_call(gpu, &call, options, TOLERANCE);
}

/// An error of a score moves the gate's slope by that over θ.
#[track_caller]
pub(super) fn assert_gradients_near(
    case: &Case,
    got: &Gradients<f32>,
    expected: &Gradients<f64>,
    tolerance: f64,
) {
    let name = case.name;
    let tau = tolerance.max(case.info_tolerance / Gate::default().theta);
    assert_near(name, "dq", &got.q, &expected.q, tolerance);
    assert_near(name, "dk", &got.k, &expected.k, tolerance);
    assert_near(name, "dv", &got.v, &expected.v, tolerance);
    assert_near(name, "dlambda", &got.lambda, &expected.lambda, tolerance);
    assert_near(name, "dh0", &got.states, &expected.states, tolerance);
    assert_near(name, "dtau", &got.tau, &expected.tau, tau);
    let gates = [
        ("dg", &got.g, &expected.g),
        ("dbeta", &got.beta, &expected.beta),
    ];
    for (array, got, expected) in gates {
        assert_eq!(got.is_some(), expected.is_some(), "{name}, {array}");
        if let (Some(got), Some(expected)) = (got, expected) {
            assert_near(name, array, got, expected, tolerance);
        }
    }
}

#[test]
fn every_cases_gradients_are_the_references() {
    let Some(gpu) = gpu() else { return };
    for case in chosen() {
        check(gpu, &case, GateMode::StraightThrough, &in_chunks(64));
    }
}

#[test]
fn every_cases_gradients_are_the_references_with_checks_on_and_no_features() {
    let Some(gpu) = checked_gpu() else { return };
    // The passes are the same; large states, which take longest to compile, are left to the other device.
    let is_small =
        |case: &Case| case.dims.key_dim * case.dims.value_dim * case.dims.capacity <= 6000;
    for case in chosen().filter(is_small) {
        check(gpu, &case, GateMode::StraightThrough, &in_chunks(16));
    }
}

/// A backbone's case that starts states inside chunks, merges them and ends inside a chunk, with unequal lengths.
fn small(name: &'static str, backbone: Backbone) -> Case {
    let mut case = Case::new(name, dims([3, 75, 4, 2, 12, 8, 4]));
    case.config.backbone = backbone;
    case.lengths = Some(vec![75, 40, 0]);
    case
}

const BACKBONES: [Backbone; 3] = [Backbone::Plain, Backbone::Decay, Backbone::Delta];

#[test]
fn a_hard_gate_gives_no_gradient_by_tau_and_the_same_others() {
    let Some(gpu) = gpu() else { return };
    for backbone in BACKBONES {
        let case = small("gradients_hard", backbone);
        check(gpu, &case, GateMode::Hard, &in_chunks(16));
    }
}

#[test]
fn gradients_reach_the_states_of_an_earlier_call_through_every_cut() {
    let Some(gpu) = gpu() else { return };
    let one_chunk = Options {
        workspace: Some(1),
        ..in_chunks(16)
    };
    let pieces = Options {
        max_binding: Some(25 << 10),
        ..in_chunks(16)
    };
    for backbone in BACKBONES {
        let case = small("gradients_cut", backbone);
        let arrays = case.arrays();
        let first = Call {
            case: &case,
            arrays: &arrays,
            cache: None,
            mode: GateMode::StraightThrough,
        };
        let cache = run(gpu, &first, &in_chunks(16)).cache;
        let call = Call {
            cache: Some(&cache),
            ..first
        };
        for options in [in_chunks(16), one_chunk, pieces] {
            check_call(gpu, &call, &options, TOLERANCE);
        }
    }
}

#[test]
fn gradients_in_half_precision_are_near_the_reference() {
    let Some(gpu) = gpu() else { return };
    if !gpu.variant().f16 {
        eprintln!("SKIP: half precision, the device lacks shader-f16");
        return;
    }
    let options = Options {
        float: Float::F16,
        ..in_chunks(16)
    };
    for backbone in BACKBONES {
        let case = small("gradients_half", backbone);
        let arrays = case.arrays().halved();
        let call = Call {
            case: &case,
            arrays: &arrays,
            cache: None,
            mode: GateMode::Hard,
        };
        // The states that gradients are taken with are rounded to 11 bits, once for every version.
        check_call(gpu, &call, &options, 3e-3);
    }
}

#[test]
fn golden_gradients() {
    let Some(gpu) = gpu() else { return };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/grad");
    for name in ["decay", "delta"] {
        let read = |ending| TensorFile::read(&folder.join(format!("{name}{ending}")));
        let file = read(".safetensors").unwrap_or_else(|error| panic!("{error}"));
        let case = case::Case::parse(&file).unwrap_or_else(|error| panic!("{error}"));
        let expected = read(".expected.safetensors").unwrap_or_else(|error| panic!("{error}"));
        let (d_o, gate) = (case.d_o.as_deref().expect("do"), case.gate);
        let loss = Loss { d_o, gate };
        let (dims, config, inputs) = (&case.dims, &case.config, case.inputs());
        let cache = case.cache.as_ref();
        let got = op::gradients(gpu, dims, config, &inputs, cache, &loss, &in_chunks(16))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let near = |array, got: &[f32], tolerance| {
            let tensor = expected.get(array).unwrap_or_else(|| panic!("{array}"));
            let values: Vec<f32> = tensor.values("", tensor.shape()).expect(array);
            let values: Vec<f64> = values.into_iter().map(f64::from).collect();
            assert_near(name, array, got, &values, tolerance);
        };
        near("dq", &got.q, 1e-4);
        near("dk", &got.k, 1e-4);
        near("dv", &got.v, 1e-4);
        near("dlambda", &got.lambda, 1e-4);
        near("dtau", &got.tau, TOLERANCE);
        near("dg", got.g.as_deref().expect("both decay"), 1e-4);
        if let Some(beta) = &got.beta {
            near("dbeta", beta, 1e-4);
        }
    }
}

#[test]
fn a_soft_gate_and_a_gradient_of_another_shape_are_refused() {
    let Some(gpu) = gpu() else { return };
    let case = small("gradients_refused", Backbone::Decay);
    let (arrays, d_o) = (case.arrays(), drawn(&case.dims));
    let refused = |d_o: &[f32], gate| {
        let (dims, config, inputs) = (&case.dims, &case.config, arrays.inputs(None));
        let loss = Loss { d_o, gate };
        op::gradients(gpu, dims, config, &inputs, None, &loss, &in_chunks(16))
            .map(drop)
            .expect_err("a refusal")
    };
    let soft = Gate {
        mode: GateMode::Soft,
        ..Gate::default()
    };
    assert!(refused(&d_o, soft).is_unsupported());
    assert!(refused(&d_o[1..], Gate::default()).is_input());
    // The smallest is 0 in f32, where the gate's slope would be no number.
    for theta in [0.0, 1e-50] {
        let flat = Gate {
            theta,
            ..Gate::default()
        };
        assert!(refused(&d_o, flat).is_input(), "{theta}");
    }
}

/// Gradients recorded between an application's own work: the same numbers, nothing beyond the arrays' ends, nothing
/// before the application submits.
pub(super) fn check_recorded(gpu: &Gpu, case: &Case, options: &Options) {
    let (rig, arrays) = (Rig::new(gpu, case, options).expect("a rig"), case.arrays());
    rig.run(&arrays).expect("a run");
    let mode = GateMode::StraightThrough;
    let backward = Backward::new(gpu, &case.dims, &case.config, mode, options);
    let backward = pollster::block_on(backward).expect("a backward pass");
    let gradients = guarded(gpu, &backward, &case.dims);
    let operator = op::Decider::Given { measure: false };
    let operator = op::Operator::new(gpu, &case.dims, &case.config, operator, options);
    let operator = pollster::block_on(operator).expect("an operator");
    let start = pollster::block_on(operator.cache()).expect("an empty cache");
    let backward = std::sync::Arc::new(backward);
    let bound = backward.bind(&rig.arrays, &start, &gradients);
    let bound = pollster::block_on(bound).expect("bindings");
    let mut encoder = gpu.device().create_command_encoder(&Default::default());
    bound.record(&mut encoder);
    let before = rig.read(&gradients.d_v).expect("a buffer");
    assert!(before.iter().all(|&word| word == POISON));
    gpu.queue().submit([encoder.finish()]);

    let call = Call {
        case,
        arrays: &arrays,
        cache: None,
        mode,
    };
    let expected = on_device(gpu, &call, None, options);
    let words = |buffer, len: usize| {
        let words = rig.read(buffer).expect("a buffer");
        let touched = words[words.len() - GUARD..]
            .iter()
            .position(|&word| word != POISON);
        assert_eq!(touched, None, "{}", case.name);
        bytemuck::cast_slice::<u32, f32>(&words[..len]).to_vec()
    };
    assert_eq!(words(&gradients.d_q, expected.q.len()), expected.q);
    assert_eq!(words(&gradients.d_k, expected.k.len()), expected.k);
    assert_eq!(words(&gradients.d_v, expected.v.len()), expected.v);
    assert_eq!(words(&gradients.d_tau, expected.tau.len()), expected.tau);
    let states = words(&gradients.d_states, case.dims.states_len());
    assert!(states.iter().all(|&x| x == 0.0), "an empty cache");
    let d_control = words(
        &gradients.d_control,
        case.dims.token_heads() * (case.dims.capacity + 2),
    );
    let lambda = d_control
        .chunks_exact(case.dims.capacity + 2)
        .flat_map(|record| &record[2..]);
    assert!(lambda.eq(&expected.lambda));
    for (_, buffer) in rig.guarded() {
        words(buffer, 0);
    }
}

/// Poisoned arrays of gradients with guard words; do and the states' gradients are written.
fn guarded(gpu: &Gpu, backward: &Backward, dims: &Dims) -> GradientArrays {
    let bytes = backward.plan().arrays;
    let buffer = |size: u64| poisoned(gpu, size as usize / 4 + GUARD, wgpu::BufferUsages::STORAGE);
    let arrays = GradientArrays {
        d_o: buffer(bytes.value),
        d_q: buffer(bytes.key),
        d_k: buffer(bytes.key),
        d_v: buffer(bytes.value),
        d_control: buffer(bytes.control),
        d_states: buffer(bytes.states),
        d_tau: buffer(bytes.tau),
        ..pollster::block_on(backward.arrays()).expect("arrays")
    };
    let queue = gpu.queue();
    queue.write_buffer(&arrays.d_o, 0, bytemuck::cast_slice(&drawn(dims)));
    let theta = [Gate::default().theta as f32, 0.0, 0.0, 0.0];
    queue.write_buffer(&arrays.theta, 0, bytemuck::cast_slice(&theta));
    queue.write_buffer(&arrays.d_states, 0, &vec![0; bytes.states as usize]);
    arrays
}

#[test]
fn recorded_gradients_stay_within_their_arrays() {
    let Some(gpu) = gpu() else { return };
    for backbone in [Backbone::Decay, Backbone::Delta] {
        check_recorded(gpu, &small("gradients_recorded", backbone), &in_chunks(16));
    }
}

#[test]
fn recorded_gradients_stay_within_their_arrays_with_checks_on_and_no_features() {
    let Some(gpu) = checked_gpu() else { return };
    for backbone in [Backbone::Decay, Backbone::Delta] {
        check_recorded(gpu, &small("gradients_recorded", backbone), &in_chunks(16));
    }
}
