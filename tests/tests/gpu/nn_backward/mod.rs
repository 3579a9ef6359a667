//! The layers backwards, against dla-core's in double precision or against finite differences of the forward pass.

mod layers;
mod mixers;
mod optimiser;
mod sequence;

use dla_tests::gpu::{checked_gpu, gpu};
use dla_tests::layers::numbers;
use dla_tests::tolerance::assert_near;
use dla_wgpu::Gpu;
use dla_wgpu::nn::{Matrix, WeightType, buffer};
use pollster::block_on;

const TOLERANCE: f64 = 1e-5;

/// Runs twice on every device: the same bits, and near to what is expected.
#[track_caller]
fn compare(name: &str, run: impl Fn(&Gpu) -> Vec<Vec<f32>>, expected: &[(&str, Vec<f64>)]) {
    compare_within(name, run, expected, TOLERANCE);
}

/// The same with a relative rms of its own.
fn compare_within(
    name: &str,
    run: impl Fn(&Gpu) -> Vec<Vec<f32>>,
    expected: &[(&str, Vec<f64>)],
    tolerance: f64,
) {
    for gpu in [gpu(), checked_gpu()].into_iter().flatten() {
        let (got, again) = (run(gpu), run(gpu));
        assert_eq!(got.len(), expected.len(), "{name}");
        for ((array, expected), (got, again)) in expected.iter().zip(got.iter().zip(&again)) {
            assert_eq!(bits(got), bits(again), "{name}, {array}: another run");
            assert_near(name, array, got, expected, tolerance);
        }
    }
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| value.into()).collect()
}

/// The sum of two arrays: what is added to what was there.
fn sum(a: &[f64], b: &[f32]) -> Vec<f64> {
    assert_eq!(a.len(), b.len(), "arrays of one length");
    a.iter().zip(b).map(|(a, &b)| a + f64::from(b)).collect()
}

/// A written f32 matrix, in buffers of at most `bytes`.
fn matrix(gpu: &Gpu, sizes: [usize; 2], weights: &[f32], bytes: u64) -> Matrix {
    let matrix = block_on(Matrix::within(gpu, sizes, WeightType::F32, bytes));
    let matrix = matrix.unwrap_or_else(|error| panic!("{error}"));
    block_on(matrix.write(gpu, 0, weights)).unwrap_or_else(|error| panic!("{error}"));
    matrix
}

/// What a matrix holds.
fn held(gpu: &Gpu, matrix: &Matrix) -> Vec<f32> {
    let weights = gpu.block_on(matrix.read(gpu));
    weights.unwrap_or_else(|error| panic!("{error}"))
}

/// Room for parts; passes use all of it, so no guards.
fn scratch(gpu: &Gpu, values: usize) -> wgpu::Buffer {
    block_on(buffer(gpu, "scratch", values)).unwrap_or_else(|error| panic!("{error}"))
}

/// The gradient of `loss` by central differences.
fn differences(at: &[f64], loss: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let mut x = at.to_vec();
    let slope = |i: usize| {
        let h = 1e-5 * at[i].abs().max(1.0);
        x[i] = at[i] + h;
        let above = loss(&x);
        x[i] = at[i] - h;
        let below = loss(&x);
        x[i] = at[i];
        (above - below) / (2.0 * h)
    };
    (0..at.len()).map(slope).collect()
}

fn dot(a: &[f64], b: &[f32]) -> f64 {
    assert_eq!(a.len(), b.len(), "arrays of one length");
    a.iter().zip(b).map(|(a, &b)| a * f64::from(b)).sum()
}

/// Numbers from 0.5 on, for weights that divide.
fn positive(seed: u64, len: usize) -> Vec<f32> {
    numbers(seed, len).iter().map(|x| 0.5 + x.abs()).collect()
}
