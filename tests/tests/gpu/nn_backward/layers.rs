//! Linear maps, norms and gates.

use dla_core::nn;
use dla_core::nn::activation::{silu, silu_slope};
use dla_tests::gpu::gpus;
use dla_tests::layers::{Layers, numbers, rows};
use dla_wgpu::Gpu;
use dla_wgpu::nn::backward::{
    ColumnSums, ColumnSumsSpec, GatedGradient, GatedGradientSpec, Halve, InputGradient,
    MatrixGradient, RmsNormGradient,
};
use dla_wgpu::nn::{Input, Linear, Matrix, RmsNormSpec};
use half::f16;
use pollster::block_on;

use super::{compare, held, matrix, scratch, sum, wide};

/// Rows, inputs and outputs.
const SIZES: [[usize; 3]; 10] = [
    [1, 1, 1],
    [3, 36, 65],
    [70, 65, 130],
    [130, 132, 36],
    [65, 37, 21],
    [64, 64, 64],
    [1000, 20, 30],
    [777, 5, 130],
    // Tiles of two halves, by rows and by slices.
    [16_400, 129, 3],
    [8200, 129, 129],
];

#[test]
fn a_linear_map_s_input() {
    for [count, inputs, outputs] in SIZES {
        for (residual, bytes, half) in [(false, 1 << 20, false), (true, 16_000, true)] {
            let name = format!("{count} x {inputs} x {outputs}, residual {residual}");
            let mut weights = numbers(1, outputs * inputs);
            if half {
                let rounded = |x: &mut f32| *x = f16::from_f32(*x).to_f32();
                weights.iter_mut().for_each(rounded);
            }
            let (d_y, d_x) = (numbers(2, count * outputs), numbers(3, count * inputs));
            let map = nn::Linear::new(inputs, wide(&weights), None);
            let by_input = map.backward(&vec![0.0; count * inputs], &wide(&d_y)).x;
            let expected = match residual {
                true => sum(&by_input, &d_x),
                false => by_input,
            };
            compare(
                &name,
                |gpu| {
                    let mut layers = Layers::new(gpu);
                    let mut weight = matrix(gpu, [outputs, inputs], &weights, bytes);
                    if half {
                        weight = halved(&layers, gpu, &weight);
                    }
                    let d_y = layers.input("d_y", &d_y);
                    let d_x = match residual {
                        true => layers.input("d_x", &d_x),
                        false => layers.output("d_x", count * inputs),
                    };
                    let gradient = InputGradient {
                        weight: &weight,
                        residual,
                    };
                    let rows = rows(1, count);
                    layers.run(block_on(gradient.prepare(gpu, rows, &d_y, &d_x)));
                    vec![layers.values(&d_x)]
                },
                &[("d_x", expected)],
            );
        }
    }
}

/// The same weights in f16, in blocks of the same rows.
fn halved(layers: &Layers<'_>, gpu: &Gpu, from: &Matrix) -> Matrix {
    let half = block_on(from.halved(gpu)).expect("room");
    layers.run(block_on(Halve { from }.prepare(gpu, &half)));
    half
}

#[test]
fn kind_34_weights_round_to_f16_as_on_the_cpu_and_overflow_shows() {
    let exact = |power: i32| 2f32.powi(power);
    let mut weights = vec![
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.1,
        -1.0 / 3.0,
        2049.0,
        2051.0,
        -2050.5,
        65_504.0,
        65_519.0,
        -65_520.0,
        65_536.0,
        1e9,
        -f32::MAX,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
    ];
    // Around the least normal number, its multiples and halves of the least of all.
    let small = [-14, -15, -20, -24, -25, -26, -126, -149];
    weights.extend(small.into_iter().flat_map(|power| {
        let x = exact(power);
        [x, -1.5 * x, x * (1.0 + exact(-11)), x * (1.0 - exact(-12))]
    }));
    weights.extend(numbers(8, 600).iter().map(|x| x * x * x));
    let expected = weights.iter().map(|&w| f16::from_f32(w).to_f32());
    let expected: Vec<f32> = expected.collect();
    for gpu in gpus() {
        let mut layers = Layers::new(gpu);
        let single = matrix(gpu, [weights.len(), 1], &weights, 1 << 20);
        let half = halved(&layers, gpu, &single);
        let one = layers.input("x", &[1.0]);
        let y = layers.output("y", weights.len());
        let map = Linear {
            weight: &half,
            bias: None,
            input: Input::Plain,
            residual: false,
        };
        layers.run(block_on(map.prepare(gpu, rows(1, 1), &one, &y)));
        for ((got, expected), from) in layers.values(&y).iter().zip(&expected).zip(&weights) {
            let same = got == expected || (got.is_nan() && expected.is_nan());
            assert!(same, "{from:e}: {got:e} for {expected:e}");
        }
        let other = matrix(
            gpu,
            [weights.len() + 1, 1],
            &vec![0.0; weights.len() + 1],
            1 << 20,
        );
        let error =
            block_on(Halve { from: &other }.prepare(gpu, &half)).expect_err("another shape");
        assert!(error.is_input(), "{error}");
    }
}

#[test]
fn a_linear_map_s_weights_and_bias() {
    for [count, inputs, outputs] in SIZES {
        for (bytes, parts) in [(1 << 20, 1 << 21), (16_000, 1 << 13)] {
            let name = format!("{count} x {inputs} x {outputs}, {bytes} bytes");
            let (d_y, x) = (numbers(2, count * outputs), numbers(3, count * inputs));
            let (before, bias) = (numbers(4, outputs * inputs), numbers(5, outputs));
            let zeros = vec![0.0; outputs * inputs];
            let map = nn::Linear::new(inputs, zeros, Some(vec![0.0; outputs]));
            let expected = map.backward(&wide(&x), &wide(&d_y));
            let expected_bias = sum(&expected.bias.expect("a bias"), &bias);
            compare(
                &name,
                |gpu| {
                    let d_weight = matrix(gpu, [outputs, inputs], &before, bytes);
                    let mut layers = Layers::new(gpu);
                    let (d_y, x) = (layers.input("d_y", &d_y), layers.input("x", &x));
                    let d_bias = layers.input("d_bias", &bias);
                    let scratch = scratch(gpu, parts);
                    let rows = rows(1, count);
                    let gradient = MatrixGradient {
                        d_weight: &d_weight,
                        scratch: &scratch,
                    };
                    layers.run(block_on(gradient.prepare(gpu, rows, &d_y, &x)));
                    let sums = ColumnSums {
                        spec: ColumnSumsSpec::all(outputs),
                        scratch: &scratch,
                    };
                    layers.run(block_on(sums.prepare(gpu, count, &d_y, (&d_bias, 0))));
                    vec![held(gpu, &d_weight), layers.values(&d_bias)]
                },
                &[
                    ("d_weight", sum(&expected.weight, &before)),
                    ("d_bias", expected_bias),
                ],
            );
        }
    }
}

#[test]
fn rms_norm_backwards() {
    for (count, width) in [(1, 1), (3, 65), (70, 130), (2, 1000), (600, 7)] {
        // A row of one value has no gradient but what ε leaves.
        let epsilon = if width == 1 { 0.1 } else { 1e-5 };
        rms_norm(count, width, &[false, true], 1.0, epsilon);
    }
}

#[test]
fn kind_40_gradients_of_the_norm_at_every_magnitude() {
    for (size, epsilon) in [
        (1e20, 1e-5),
        (1e34, 1e-5),
        (1e-20, 0.0),
        (1e-25, 1e-5),
        (1e-30, 0.0),
    ] {
        rms_norm(3, 65, &[false], size, epsilon);
        rms_norm(2, 1000, &[false], size, epsilon);
    }
}

/// The input's numbers are of about `size`.
fn rms_norm(count: usize, width: usize, residuals: &[bool], size: f32, epsilon: f32) {
    for &residual in residuals {
        let (mut x, weight) = (numbers(1, count * width), numbers(2, width));
        x.iter_mut().for_each(|x| *x *= size);
        let (d_y, d_x) = (numbers(3, count * width), numbers(4, count * width));
        let before = numbers(5, width);
        let norm = nn::RmsNorm::new(wide(&weight), epsilon.into());
        let expected = norm.backward(&wide(&x), &wide(&d_y));
        let by_input = match residual {
            true => sum(&expected.x, &d_x),
            false => expected.x,
        };
        compare(
            &format!("{count} x {width}, {size:e}, residual {residual}"),
            |gpu| {
                let mut layers = Layers::new(gpu);
                let x = layers.input("x", &x);
                let weight = layers.input("weight", &weight);
                let d_y = layers.input("d_y", &d_y);
                let d_x = match residual {
                    true => layers.input("d_x", &d_x),
                    false => layers.output("d_x", count * width),
                };
                let d_weight = layers.input("d_weight", &before);
                let scratch = scratch(gpu, 4096);
                let terms = layers.output("terms", count * width);
                let gradient = RmsNormGradient {
                    weight: &weight,
                    spec: RmsNormSpec { width, epsilon },
                    residual,
                    scratch: &scratch,
                    terms: &terms,
                };
                let buffers = [&x, &d_y, &d_x];
                let rows = rows(count, 1);
                layers.run(block_on(gradient.prepare(gpu, rows, buffers, &d_weight)));
                vec![layers.values(&d_x), layers.values(&d_weight)]
            },
            &[
                ("d_x", by_input),
                ("d_weight", sum(&expected.weight, &before)),
            ],
        );
    }
}

#[test]
fn a_gate_backwards() {
    for (count, width) in [(1, 1), (9, 65), (3, 300)] {
        let (opened, d) = (numbers(1, 2 * count * width), numbers(2, count * width));
        let (mut d_opened, mut product) = (Vec::new(), Vec::new());
        for (row, d) in wide(&opened).chunks(2 * width).zip(wide(&d).chunks(width)) {
            let (gate, up) = row.split_at(width);
            let of = |f: fn(f64, f64, f64) -> f64| -> Vec<f64> {
                (0..width).map(|i| f(gate[i], up[i], d[i])).collect()
            };
            d_opened.extend(of(|gate, up, d| d * up * silu_slope(gate)));
            d_opened.extend(of(|gate, _, d| d * silu(gate)));
            product.extend(of(|gate, up, _| silu(gate) * up));
        }
        compare(
            &format!("{count} x {width}"),
            |gpu| {
                let mut layers = Layers::new(gpu);
                let (opened, d) = (layers.input("opened", &opened), layers.input("d", &d));
                let d_opened = layers.output("d_opened", 2 * count * width);
                let product = layers.output("product", count * width);
                let gradient = GatedGradient {
                    spec: GatedGradientSpec { width },
                };
                let (given, made) = ([&opened, &d], [&d_opened, &product]);
                let rows = rows(1, count);
                layers.run(block_on(gradient.prepare(gpu, rows, given, made)));
                vec![layers.values(&d_opened), layers.values(&product)]
            },
            &[("d_opened", d_opened.clone()), ("product", product.clone())],
        );
    }
}
