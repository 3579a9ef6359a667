//! Faults that users of such libraries have met, each kind as a test of its name, through the chunk passes and
//! token by token.

use dla_core::dla::recurrent;
use dla_core::{Backbone, Cache, Config, Dims, Output};
use dla_tests::cases::{Arrays, Case, dims};
use dla_tests::gpu::{checked_gpu, gpu};
use dla_tests::pieces::in_pieces;
use dla_tests::rig::{GUARD, POISON, Rig};
use dla_tests::tolerance::{assert_near, assert_scores_near};
use dla_wgpu::op::{self, Options, Path};
use dla_wgpu::{Float, Gpu};

const CHUNK: usize = 16;

/// Both ways through the states.
fn paths() -> [Options; 2] {
    [Path::Chunks, Path::Steps].map(options)
}

fn options(path: Path) -> Options {
    Options {
        chunk: Some(CHUNK),
        path,
        ..Default::default()
    }
}

fn case(name: &'static str, sizes: [usize; 7]) -> Case {
    Case::new(name, dims(sizes))
}

fn run(
    gpu: &Gpu,
    dims: &Dims,
    config: &Config,
    arrays: &Arrays,
    cache: Option<&Cache<f32>>,
    options: &Options,
) -> Output<f32> {
    op::run(gpu, dims, config, &arrays.inputs(None), cache, options)
        .unwrap_or_else(|error| panic!("{dims:?}: {error}"))
}

fn reference(case: &Case, arrays: &Arrays) -> Output<f64> {
    recurrent::forward(&case.dims, &case.config, &arrays.wide().inputs(None), None)
        .unwrap_or_else(|error| panic!("{}: {error}", case.name))
}

#[track_caller]
fn compare(case: &Case, got: &Output<f32>, expected: &Output<f64>) {
    let name = case.name;
    assert_eq!(got.trace.decisions, expected.trace.decisions, "{name}");
    assert_eq!(got.trace.count, expected.trace.count, "{name}");
    assert_eq!(got.cache.n, expected.cache.n, "{name}");
    assert_scores_near(name, &got.trace.score, &expected.trace.score);
    assert_near(name, "o", &got.o, &expected.o, 1e-4);
    assert_near(
        name,
        "states",
        &got.cache.states,
        &expected.cache.states,
        1e-4,
    );
}

#[test]
fn kind_01_pieces_of_any_size_equal_the_whole() {
    let Some(gpu) = gpu() else { return };
    let case = case("kind_01", [1, 120, 2, 1, 12, 8, 4]);
    let expected = reference(&case, &case.arrays());
    let sizes = [0, 1, CHUNK - 1, CHUNK, 0, CHUNK + 1, 2, 69, 0];
    for options in paths().into_iter().chain([options(Path::Auto)]) {
        let got = in_pieces(gpu, &case, &case.arrays(), None, &sizes, &options);
        compare(&case, &got, &expected);
    }
}

#[test]
fn kind_02_steps_after_a_prefill_that_ends_inside_a_chunk() {
    let Some(gpu) = gpu() else { return };
    let case = case("kind_02", [1, 70, 2, 1, 12, 8, 4]);
    let mut sizes = vec![CHUNK * 2 + 5];
    sizes.resize(1 + case.dims.tokens - sizes[0], 1);
    let got = in_pieces(
        gpu,
        &case,
        &case.arrays(),
        None,
        &sizes,
        &options(Path::Auto),
    );
    compare(&case, &got, &reference(&case, &case.arrays()));
}

#[test]
fn kind_03_any_length() {
    let Some(gpu) = gpu() else { return };
    for tokens in [1, 63, 64, 65, 100, 1000] {
        let case = case("kind_03", [1, tokens, 1, 1, 8, 8, 4]);
        let arrays = case.arrays();
        let expected = reference(&case, &arrays);
        for path in [Path::Chunks, Path::Steps] {
            let options = Options {
                path,
                ..Default::default()
            };
            let got = run(gpu, &case.dims, &case.config, &arrays, None, &options);
            compare(&case, &got, &expected);
        }
    }
}

#[test]
fn kind_04_a_batch_of_unequal_lengths_equals_each_alone() {
    let Some(gpu) = gpu() else { return };
    let mut case = case("kind_04", [4, 50, 2, 1, 12, 8, 4]);
    case.lengths = Some(vec![50, 0, 33, 1]);
    let arrays = case.arrays();
    let row = case.dims.heads * case.dims.value_dim;
    for options in paths() {
        let all = run(gpu, &case.dims, &case.config, &arrays, None, &options);
        for (b, o) in all.o.chunks_exact(case.dims.tokens * row).enumerate() {
            let alone = arrays.item(&case.dims, b);
            let dims = Dims {
                batch: 1,
                tokens: alone.v.len() / row,
                ..case.dims
            };
            let alone = run(gpu, &dims, &case.config, &alone, None, &options);
            assert_eq!(o[..alone.o.len()], alone.o, "item {b}, {options:?}");
            assert!(
                o[alone.o.len()..].iter().all(|&x| x == 0.0),
                "item {b}: beyond"
            );
            let states = alone.cache.states.len();
            assert_eq!(all.cache.states[b * states..][..states], alone.cache.states);
        }
    }
}

/// Both paths at their own size of a call, and the step passes at one token.
fn sized_paths() -> impl Iterator<Item = (usize, Options)> {
    let long = paths().map(|options| (40, options));
    long.into_iter().chain([(1, options(Path::Auto))])
}

/// Runs `calls` calls of the rig's size one after another; returns the last one's output.
fn feed(rig: &Rig, arrays: &Arrays, whole: &Dims, size: usize, calls: usize) -> Vec<f32> {
    let mut o = Vec::new();
    for call in 0..calls {
        let piece = arrays.tokens(whole, call * size, (call + 1) * size);
        o = rig.run(&piece).expect("a run");
    }
    o
}

#[test]
fn kind_05_restored_goes_on_as_if_never_stopped() {
    let Some(gpu) = gpu() else { return };
    let whole = case("kind_05", [1, 80, 2, 1, 12, 8, 4]);
    let arrays = whole.arrays();
    for (size, options) in sized_paths() {
        let calls = if size == 1 { 12 } else { 2 };
        let part = case("kind_05", [1, size, 2, 1, 12, 8, 4]);
        let rig = Rig::new(gpu, &part, &options).expect("a rig");
        let never_stopped = feed(&rig, &arrays, &whole.dims, size, calls);
        let mut restored: Option<Output<f32>> = None;
        for call in 0..calls {
            let piece = arrays.tokens(&whole.dims, call * size, (call + 1) * size);
            let saved = restored.map(|output| save(output.cache));
            let cache = saved.as_ref();
            restored = Some(run(gpu, &part.dims, &part.config, &piece, cache, &options));
        }
        let restored = restored.expect("at least one call");
        assert_eq!(bits(&never_stopped), bits(&restored.o), "{options:?}");
    }
}

/// A cache through bytes and back.
fn save(cache: Cache<f32>) -> Cache<f32> {
    let bytes: Vec<u8> = bytemuck::cast_slice(&cache.states).to_vec();
    Cache {
        states: bytemuck::pod_collect_to_vec(&bytes),
        ..cache
    }
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

#[test]
fn kind_06_a_reset_cache_equals_a_new_one() {
    let Some(gpu) = gpu() else { return };
    let whole = case("kind_06", [2, 50, 2, 1, 12, 8, 4]);
    let other = case("kind_06_other", [2, 50, 2, 1, 12, 8, 4]);
    for (size, options) in sized_paths() {
        let calls = if size == 1 { 12 } else { 1 };
        let part = case("kind_06", [2, size, 2, 1, 12, 8, 4]);
        let new = Rig::new(gpu, &part, &options).expect("a rig");
        let expected = feed(&new, &whole.arrays(), &whole.dims, size, calls);
        let used = Rig::new(gpu, &part, &options).expect("a rig");
        feed(&used, &other.arrays(), &whole.dims, size, calls);
        used.reset();
        let got = feed(&used, &whole.arrays(), &whole.dims, size, calls);
        assert_eq!(bits(&got), bits(&expected), "{options:?}");
    }
}

#[test]
fn kind_09_strong_decay_at_every_step() {
    let Some(gpu) = gpu() else { return };
    let mut case = case("kind_09", [1, 600, 1, 1, 8, 8, 4]);
    case.tau = f32::INFINITY;
    let mut arrays = case.arrays();
    arrays.g = Some(vec![-12.0; case.dims.token_heads()]);
    let expected = reference(&case, &arrays);
    for options in paths() {
        let got = run(gpu, &case.dims, &case.config, &arrays, None, &options);
        compare(&case, &got, &expected);
    }
}

fn check_more_groups(path: Path, sizes: [usize; 7]) {
    let Some(gpu) = gpu() else { return };
    let case = case("kind_12", sizes);
    let arrays = case.arrays();
    let expected = reference(&case, &arrays);
    let options = Options {
        chunk: Some(1),
        path,
        ..Default::default()
    };
    let got = run(gpu, &case.dims, &case.config, &arrays, None, &options);
    assert_eq!(got.trace.decisions, expected.trace.decisions);
    assert_near(case.name, "o", &got.o, &expected.o, 1e-4);
}

#[test]
fn kind_12_more_sequences_than_groups_in_one_dimension() {
    check_more_groups(Path::Steps, [66, 1, 1000, 1, 1, 32, 2]);
}

#[test]
#[ignore = "more than a minute on a CPU's driver: run with --ignored on a GPU"]
fn kind_12_more_chunks_than_groups_in_one_dimension() {
    check_more_groups(Path::Chunks, [2, 1100, 30, 1, 1, 32, 2]);
}

#[test]
fn kind_15_arrays_beyond_the_largest_binding_are_split() {
    let Some(gpu) = gpu() else { return };
    let case = case("kind_15", [3, 90, 2, 1, 12, 8, 4]);
    let arrays = case.arrays();
    let expected = reference(&case, &arrays);
    for options in paths() {
        let split = Options {
            max_binding: Some(10 << 10),
            ..options
        };
        let got = run(gpu, &case.dims, &case.config, &arrays, None, &split);
        compare(&case, &got, &expected);
        let too_small = Options {
            max_binding: Some(1 << 10),
            ..options
        };
        let inputs = arrays.inputs(None);
        let error = op::run(gpu, &case.dims, &case.config, &inputs, None, &too_small)
            .expect_err("one state is larger");
        assert!(error.is_unsupported(), "{error}");
    }
}

#[test]
fn kind_17_without_f16_an_error_says_so_and_f32_works() {
    let Some(gpu) = checked_gpu() else { return };
    assert!(!gpu.variant().f16, "a device without optional features");
    let case = case("kind_17", [1, 20, 2, 1, 12, 8, 4]);
    let arrays = case.arrays();
    for options in paths() {
        let half = Options {
            float: Float::F16,
            ..options
        };
        let inputs = arrays.inputs(None);
        let error = op::run(gpu, &case.dims, &case.config, &inputs, None, &half)
            .expect_err("f16 needs the feature");
        assert!(error.is_unsupported(), "{error}");
        assert!(error.to_string().contains("f16"), "{error}");
        let got = run(gpu, &case.dims, &case.config, &arrays, None, &options);
        compare(&case, &got, &reference(&case, &arrays));
    }
}

#[test]
fn kind_33_nan_and_infinity_reach_the_output_and_nothing_before() {
    let Some(gpu) = gpu() else { return };
    for backbone in [Backbone::Decay, Backbone::Delta] {
        let mut case = case("kind_33", [1, 60, 2, 1, 12, 8, 4]);
        case.config.backbone = backbone;
        nan_and_infinity(gpu, &case);
    }
}

fn nan_and_infinity(gpu: &Gpu, case: &Case) {
    let clean = case.arrays();
    let at = 37;
    let before = at * case.dims.heads * case.dims.value_dim;
    let singles = [vec![30], vec![1; 14], vec![16]].concat();
    let ways = paths().map(|options| (vec![case.dims.tokens], options));
    for (sizes, options) in ways.into_iter().chain([(singles, options(Path::Auto))]) {
        let go = |arrays: &Arrays| in_pieces(gpu, case, arrays, None, &sizes, &options);
        let untouched = go(&clean);
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for array in ["q", "k", "v"] {
                let mut arrays = clean.clone();
                match array {
                    "q" => arrays.q[at * case.dims.key_dim + 3] = bad,
                    "k" => arrays.k[at * case.dims.key_dim + 3] = bad,
                    _ => arrays.v[before + 3] = bad,
                }
                let got = go(&arrays);
                let expected = reference(case, &arrays);
                let what = format!("{bad} in {array}, {:?}, {options:?}", case.config.backbone);
                assert_eq!(
                    bits(&got.o[..before]),
                    bits(&untouched.o[..before]),
                    "{what}"
                );
                let hidden =
                    (0..got.o.len()).find(|&i| got.o[i].is_finite() != expected.o[i].is_finite());
                assert_eq!(hidden, None, "{what}: finite here, not finite there");
                assert_eq!(got.trace.decisions, expected.trace.decisions, "{what}");
                assert_eq!(got.trace.non_finite, expected.trace.non_finite, "{what}");
            }
        }
    }
}

#[test]
fn kind_34_f16_overflow_shows_in_the_output() {
    let Some(gpu) = gpu() else { return };
    if !gpu.variant().f16 {
        eprintln!("SKIP: kind_34, the device has no shader-f16");
        return;
    }
    let case = case("kind_34", [1, 40, 1, 1, 8, 8, 4]);
    let mut arrays = case.arrays();
    arrays.v.iter_mut().for_each(|x| *x *= 1e4);
    arrays.q.iter_mut().for_each(|x| *x *= 10.0);
    let arrays = arrays.halved();
    let expected = reference(&case, &arrays);
    let overflows = expected.o.iter().filter(|x| x.abs() > 7e4).count();
    assert!(overflows > 10, "the case overflows f16");
    for options in paths() {
        let options = Options {
            float: Float::F16,
            ..options
        };
        let got = run(gpu, &case.dims, &case.config, &arrays, None, &options);
        for (at, (got, expected)) in got.o.iter().zip(&expected.o).enumerate() {
            if expected.abs() > 7e4 {
                assert!(
                    !got.is_finite(),
                    "{at}: {got} hides {expected}, {options:?}"
                );
            }
        }
    }
}

#[test]
fn kind_35_odd_counts_of_f16() {
    let Some(gpu) = gpu() else { return };
    if !gpu.variant().f16 {
        eprintln!("SKIP: kind_35, the device has no shader-f16");
        return;
    }
    for sizes in [
        [1, 3, 1, 1, 5, 7, 2],
        [1, 1, 1, 1, 1, 1, 1],
        [1, 33, 3, 1, 7, 9, 3],
    ] {
        let case = case("kind_35", sizes);
        let arrays = case.arrays().halved();
        let expected = reference(&case, &arrays);
        for options in paths() {
            let options = Options {
                float: Float::F16,
                ..options
            };
            let got = run(gpu, &case.dims, &case.config, &arrays, None, &options);
            assert_eq!(got.trace.decisions, expected.trace.decisions, "{sizes:?}");
            assert_near(case.name, "o", &got.o, &expected.o, 2e-3);
        }
    }
}

#[test]
fn nothing_is_written_behind_an_array_or_left_unwritten_in_the_output() {
    let Some(gpu) = gpu() else { return };
    for (sizes, lengths) in [
        ([2, 75, 3, 1, 11, 9, 4], vec![75, 40]),
        ([2, 64, 2, 2, 16, 8, 5], vec![64, 0]),
        ([2, 1, 3, 1, 11, 9, 4], vec![1, 1]),
        ([2, 1, 2, 2, 16, 8, 1], vec![1, 0]),
    ] {
        let mut case = case("guards", sizes);
        case.lengths = Some(lengths);
        for options in paths() {
            let rig = Rig::new(gpu, &case, &options).expect("a rig");
            let mut runs = (0..6).map(|_| rig.run(&case.arrays()).expect("a run"));
            let o = runs.nth(5).expect("six runs, more than a cache holds");
            assert!(o.iter().all(|x| x.is_finite()), "{sizes:?}, {options:?}");
            for (name, buffer) in rig.guarded() {
                let words = rig.read(buffer).expect("a buffer");
                let touched = words[words.len() - GUARD..]
                    .iter()
                    .position(|&word| word != POISON);
                assert_eq!(touched, None, "{name}, {sizes:?}, {options:?}");
            }
        }
    }
}
