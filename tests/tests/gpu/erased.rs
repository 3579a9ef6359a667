//! States that are all but erased, or cancelled by what joins them: a |S|² carried as a scalar loses its digits there,
//! and the scan measures the state instead (`docs/algorithm.md` §3).

use dla_core::{Backbone, Config};
use dla_tests::cases::{Arrays, Case, Draw, dims};
use dla_tests::gpu::{checked_gpu, gpu};
use dla_tests::tolerance::{assert_near, assert_scores_near};
use dla_wgpu::op::{self, Options, Path};

/// Runs the chunk passes with and without bounds checks: every decision outside the margin is the rule's, and the
/// numbers are the reference's under these decisions.
fn check(case: &Case, arrays: &Arrays) {
    for gpu in [gpu(), checked_gpu()].into_iter().flatten() {
        for chunk in [16, 64] {
            let options = Options {
                chunk: Some(chunk),
                path: Path::Chunks,
                ..Default::default()
            };
            let name = &format!("{} in chunks of {chunk}", case.name);
            let inputs = arrays.inputs(None);
            let got = op::run(gpu, &case.dims, &case.config, &inputs, None, &options)
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            let judged = case.judge(arrays, &got.trace.decisions).expect(name);
            assert_eq!(judged.fault, None, "{name}");
            let expected = judged.output;
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
    }
}

/// Repeats a key up to `noise`, with a new one at every 25th token.
fn repeat_keys(case: &Case, arrays: &mut Arrays, noise: f32) {
    let mut draw = Draw::new(3);
    let width = case.dims.key_dim;
    let mut key = Vec::new();
    for (t, row) in arrays.k.chunks_exact_mut(width).enumerate() {
        if t % 25 == 0 {
            key = row.to_vec();
        }
        for (x, key) in row.iter_mut().zip(&key) {
            *x = key + noise * draw.normal();
        }
        let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt();
        row.iter_mut().for_each(|x| *x /= norm);
    }
}

#[test]
fn kind_75_scores_of_keys_that_repeat() {
    let shapes = [
        ("repeated keys, two sequences", [2, 200, 2, 1, 16, 12, 4]),
        ("repeated keys, square heads", [1, 150, 1, 1, 64, 64, 4]),
        ("repeated keys, wide values", [1, 90, 2, 2, 8, 72, 3]),
    ];
    for (name, sizes) in shapes {
        for (beta, noise) in [(0.8, 0.0), (0.953, 1e-2), (0.999, 0.0), (0.999, 1e-4)] {
            let mut case = Case::new(name, dims(sizes));
            case.config = Config::new(Backbone::Delta);
            case.decay = 0.01;
            case.lengths = (sizes[0] == 2).then(|| vec![200, 130]);
            let mut arrays = case.arrays();
            repeat_keys(&case, &mut arrays, noise);
            arrays.beta = arrays.beta.map(|all| vec![beta; all.len()]);
            check(&case, &arrays);
        }
    }
}

/// Rounding does not add up over many chunks of one token.
#[test]
fn kind_75_scores_of_a_long_run() {
    let mut case = Case::new("a long run", dims([1, 3000, 1, 1, 16, 16, 4]));
    case.config = Config::new(Backbone::Delta);
    case.decay = 0.0;
    let mut arrays = case.arrays();
    repeat_keys(&case, &mut arrays, 0.0);
    for array in [&mut arrays.k, &mut arrays.v] {
        let first = array[..16].to_vec();
        array
            .chunks_exact_mut(16)
            .for_each(|row| row.copy_from_slice(&first));
    }
    arrays.beta = arrays.beta.map(|all| vec![0.999; all.len()]);
    check(&case, &arrays);
}

#[test]
fn kind_75_scores_of_values_that_cancel() {
    for backbone in [Backbone::Plain, Backbone::Decay, Backbone::Delta] {
        let mut case = Case::new("values that cancel", dims([1, 150, 2, 1, 16, 12, 4]));
        case.config = Config::new(backbone);
        case.decay = 0.0;
        case.tau = f32::INFINITY;
        let mut arrays = case.arrays();
        let first = arrays.k[..16].to_vec();
        arrays
            .k
            .chunks_exact_mut(16)
            .for_each(|row| row.copy_from_slice(&first));
        let first = arrays.v[..24].to_vec();
        let mut draw = Draw::new(4);
        for (t, row) in arrays.v.chunks_exact_mut(24).enumerate() {
            let sign = if t % 2 == 0 { 1.0 } else { -1.0 };
            for (x, first) in row.iter_mut().zip(&first) {
                *x = sign * first + 0.1 * draw.normal();
            }
        }
        arrays.beta = arrays.beta.map(|all| vec![0.01; all.len()]);
        check(&case, &arrays);
    }
}
