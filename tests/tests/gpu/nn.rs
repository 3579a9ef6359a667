//! The layers around the operator, against their twins in dla-core and in double precision.

use dla_core::nn;
use dla_tests::gpu::{gpu, gpus};
use dla_tests::layers::{Layers, numbers, rows};
use dla_tests::tolerance::{assert_near, wide};
use dla_wgpu::Gpu;
use dla_wgpu::nn::{Embedding, Input, Linear, Matrix, RmsNorm, RmsNormSpec, TopK, WeightType};
use half::f16;
use pollster::block_on;

const TOLERANCE: f64 = 2e-6;

/// A written matrix, in buffers of at most `bytes`.
fn matrix(
    gpu: &Gpu,
    [rows, columns]: [usize; 2],
    weights: &[f32],
    weight_type: WeightType,
    bytes: u64,
) -> Matrix {
    let matrix = block_on(Matrix::within(gpu, [rows, columns], weight_type, bytes));
    let matrix = matrix.unwrap_or_else(|error| panic!("{error}"));
    // In two parts, as a file may come.
    let (first, rest) = weights.split_at(rows / 2 * columns);
    for (row, part) in [(0, first), (rows / 2, rest)] {
        block_on(matrix.write(gpu, row, part)).unwrap_or_else(|error| panic!("{error}"));
    }
    matrix
}

/// What a matrix of this type holds of `weights`.
fn held(weights: &[f32], columns: usize, weight_type: WeightType) -> Vec<f32> {
    let rows = weights.chunks(columns);
    match weight_type {
        WeightType::F32 => weights.to_vec(),
        WeightType::F16 => weights.iter().map(|&w| f16::from_f32(w).to_f32()).collect(),
        WeightType::I8 => rows
            .flat_map(|row| row.chunks(32).flat_map(quantised))
            .collect(),
    }
}

fn quantised(block: &[f32]) -> Vec<f32> {
    let scale = block.iter().fold(0.0f32, |most, w| most.max(w.abs())) / 127.0;
    let held: Vec<_> = block
        .iter()
        .map(|w| (w / scale).round_ties_even() * scale)
        .collect();
    let near = |(w, held): (&f32, &f32)| (w - held).abs() <= scale * 0.5001;
    assert!(
        block.iter().zip(&held).all(near),
        "off by half a scale at most"
    );
    held
}

#[test]
fn embed_takes_rows_of_every_type_and_of_split_tables() {
    for gpu in gpus() {
        for weight_type in WeightType::ALL {
            for (vocabulary, width, bytes) in [(7, 1, 1 << 20), (150, 36, 4096), (65, 130, 1 << 20)]
            {
                embed(gpu, [vocabulary, width], weight_type, bytes);
            }
        }
    }
}

fn embed(gpu: &Gpu, [vocabulary, width]: [usize; 2], weight_type: WeightType, bytes: u64) {
    let weights = numbers(1, vocabulary * width);
    let table = matrix(gpu, [vocabulary, width], &weights, weight_type, bytes);
    let mut layers = Layers::new(gpu);
    let rows = rows(3, 5);
    let lengths = [5, 0, 3];
    let mut ids: Vec<u32> = (0..15).map(|i| i * 37 % vocabulary as u32).collect();
    ids[1] = vocabulary as u32 - 1;
    ids[2] = vocabulary as u32;
    ids[3] = u32::MAX;
    let (id_buffer, items) = (layers.words("ids", &ids), layers.items(&lengths));
    let x = layers.output("x", 15 * width);
    let embedding = Embedding { table: &table };
    layers.run(block_on(
        embedding.prepare(gpu, rows, &items, &id_buffer, &x),
    ));
    let held = held(&weights, width, weight_type);
    let expected: Vec<f32> = (0..15)
        .flat_map(|row| {
            let id = ids[row] as usize;
            let known = row % 5 < lengths[row / 5] as usize && id < vocabulary;
            let at = if known { id * width } else { 0 };
            held[at..at + width]
                .iter()
                .map(move |w| if known { *w } else { 0.0 })
        })
        .collect();
    let name = format!("{weight_type:?} {vocabulary} x {width}");
    assert_near(&name, "x", &layers.values(&x), &wide(&expected), 1e-7);
}

/// A linear map's sizes and settings.
#[derive(Clone, Copy, Debug)]
struct Map {
    rows: usize,
    inputs: usize,
    outputs: usize,
    weight_type: WeightType,
    kind: Kind,
    bias: bool,
    residual: bool,
    bytes: u64,
    /// What numbers of about 1 are multiplied by in the input.
    size: f32,
    epsilon: f32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Plain,
    Gated,
    Normed,
}

#[test]
fn linear_equals_double_precision_in_every_type() {
    for gpu in gpus() {
        for weight_type in WeightType::ALL {
            let map = |rows, inputs, outputs, kind| Map {
                rows,
                inputs,
                outputs,
                weight_type,
                kind,
                bias: rows % 2 == 0,
                residual: rows > 2,
                bytes: if rows == 1 { 1 << 20 } else { 16_000 },
                size: 1.0,
                epsilon: 1e-5,
            };
            for kind in [Kind::Plain, Kind::Gated, Kind::Normed] {
                for rows in [1, 3, 8, 9, 70] {
                    linear(gpu, map(rows, 36, 65, kind));
                }
                for rows in [2, 65] {
                    linear(gpu, map(rows, 65, 130, kind));
                }
            }
            for (inputs, outputs) in [(1, 3), (3, 1), (130, 36)] {
                linear(gpu, map(4, inputs, outputs, Kind::Plain));
                linear(gpu, map(70, inputs, outputs, Kind::Plain));
            }
            // Enough outputs for two and for four to a team.
            linear(gpu, map(8, 12, 3100, Kind::Plain));
            linear(gpu, map(1, 12, 7000, Kind::Normed));
        }
    }
}

/// A map of a norm by few rows, which takes the norm by itself, and by many.
#[test]
fn kind_40_maps_of_a_norm_are_right_at_every_magnitude() {
    for gpu in gpus() {
        for weight_type in WeightType::ALL {
            for (size, epsilon) in [(1e20, 1e-5), (1e37, 1e-5), (1e-25, 1e-5), (1e-25, 0.0)] {
                for rows in [1, 3, 9] {
                    let map = Map {
                        rows,
                        inputs: 37,
                        outputs: 65,
                        weight_type,
                        kind: Kind::Normed,
                        bias: false,
                        residual: false,
                        bytes: 1 << 20,
                        size,
                        epsilon,
                    };
                    linear(gpu, map);
                }
            }
        }
    }
}

fn linear(gpu: &Gpu, map: Map) {
    let Map {
        rows: count,
        inputs,
        outputs,
        size,
        epsilon,
        ..
    } = map;
    let weights = numbers(2, outputs * inputs);
    let weight = matrix(gpu, [outputs, inputs], &weights, map.weight_type, map.bytes);
    let mut layers = Layers::new(gpu);
    let wide_row = if map.kind == Kind::Gated {
        2 * inputs
    } else {
        inputs
    };
    let (mut x, y) = (numbers(3, count * wide_row), numbers(4, count * outputs));
    x.iter_mut().for_each(|x| *x *= size);
    let (bias, norm) = (numbers(5, outputs), numbers(6, inputs));
    let x_buffer = layers.input("x", &x);
    let y_buffer = if map.residual {
        layers.input("y", &y)
    } else {
        layers.output("y", count * outputs)
    };
    let bias_buffer = layers.input("bias", &bias);
    let norm_buffer = layers.input("norm", &norm);
    let scratch = layers.output("scratch", count * inputs);
    let linear = Linear {
        weight: &weight,
        bias: map.bias.then_some(&bias_buffer),
        input: match map.kind {
            Kind::Plain => Input::Plain,
            Kind::Gated => Input::Gated,
            Kind::Normed => Input::Normed {
                weight: &norm_buffer,
                epsilon,
                scratch: &scratch,
            },
        },
        residual: map.residual,
    };
    layers.run(block_on(linear.prepare(
        gpu,
        rows(1, count),
        &x_buffer,
        &y_buffer,
    )));
    let held = held(&weights, inputs, map.weight_type);
    let mut expected = Vec::with_capacity(count * outputs);
    for (row, y) in x.chunks(wide_row).zip(y.chunks(outputs)) {
        let row = shaped(map.kind, &wide(row), &norm, epsilon.into());
        for o in 0..outputs {
            let dot: f64 = row
                .iter()
                .zip(&held[o * inputs..])
                .map(|(x, &w)| x * f64::from(w))
                .sum();
            let bias = if map.bias { f64::from(bias[o]) } else { 0.0 };
            let before = if map.residual { f64::from(y[o]) } else { 0.0 };
            expected.push(dot + bias + before);
        }
    }
    let name = format!("{map:?}");
    assert_near(&name, "y", &layers.values(&y_buffer), &expected, TOLERANCE);
}

/// A row as the map takes it.
fn shaped(kind: Kind, row: &[f64], norm: &[f32], epsilon: f64) -> Vec<f64> {
    match kind {
        Kind::Plain => row.to_vec(),
        Kind::Gated => {
            let (gate, up) = row.split_at(row.len() / 2);
            let opened = |(gate, up): (&f64, &f64)| gate / (1.0 + (-gate).exp()) * up;
            gate.iter().zip(up).map(opened).collect()
        }
        Kind::Normed => {
            let mean = row.iter().map(|x| x * x).sum::<f64>() / row.len() as f64;
            let scale = 1.0 / (mean + epsilon).sqrt();
            row.iter()
                .zip(norm)
                .map(|(x, &w)| x * scale * f64::from(w))
                .collect()
        }
    }
}

#[test]
fn rms_norm_equals_its_twin() {
    for gpu in gpus() {
        for sizes in [[1, 1], [3, 65], [9, 130], [2, 1000]] {
            rms_norm(gpu, sizes, 1.0, 1e-5);
        }
    }
}

#[test]
fn kind_40_the_norm_is_right_at_every_magnitude() {
    for gpu in gpus() {
        for (size, epsilon) in [
            (1e19, 1e-5),
            (1e37, 1e-5),
            (1e-25, 1e-5),
            (1e-20, 0.0),
            (1e-30, 0.0),
        ] {
            for sizes in [[3, 65], [2, 1000]] {
                rms_norm(gpu, sizes, size, epsilon);
            }
        }
    }
}

/// A row with a value that is not finite has no norm; its neighbours keep theirs.
#[test]
fn kind_40_a_row_that_is_not_finite_has_no_norm_on_a_device() {
    for gpu in gpus() {
        for bad in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
            let mut layers = Layers::new(gpu);
            let mut x = vec![1.0; 300];
            x[107] = bad;
            let (x, w) = (layers.input("x", &x), layers.input("weight", &[1.0; 100]));
            let y = layers.output("y", 300);
            let (width, epsilon) = (100, 1e-5);
            let spec = RmsNormSpec { width, epsilon };
            let norm = RmsNorm { weight: &w, spec };
            layers.run(block_on(norm.prepare(gpu, rows(3, 1), &x, &y)));
            let y = layers.values(&y);
            assert!(
                y[100..200].iter().all(|y| y.is_nan()),
                "{bad}: {:?}",
                &y[100..200]
            );
            let others = y[..100].iter().chain(&y[200..]);
            assert!(others.clone().all(|y| (y - 1.0).abs() < 1e-4), "{bad}");
        }
    }
}

fn rms_norm(gpu: &Gpu, [count, width]: [usize; 2], size: f32, epsilon: f32) {
    let mut layers = Layers::new(gpu);
    let (mut x, weight) = (numbers(1, count * width), numbers(2, width));
    x.iter_mut().for_each(|x| *x *= size);
    let (x_buffer, w) = (layers.input("x", &x), layers.input("weight", &weight));
    let y = layers.output("y", count * width);
    let spec = RmsNormSpec { width, epsilon };
    let norm = RmsNorm { weight: &w, spec };
    layers.run(block_on(norm.prepare(gpu, rows(count, 1), &x_buffer, &y)));
    let expected = nn::RmsNorm::new(wide(&weight), epsilon.into()).forward(&wide(&x));
    let name = format!("{count} x {width}, {size:e}");
    assert_near(&name, "y", &layers.values(&y), &expected, 1e-6);
}

#[test]
fn kind_34_a_weight_that_f16_cannot_hold_is_refused_with_its_place() {
    let Some(gpu) = gpu() else { return };
    let matrix = block_on(Matrix::new(gpu, 4, 3, WeightType::F16)).expect("a matrix");
    let mut weights = vec![1.0; 6];
    weights[4] = 65_520.0;
    let error = block_on(matrix.write(gpu, 2, &weights)).expect_err("refused");
    assert!(error.is_input(), "{error}");
    let told = error.to_string();
    assert!(
        told.contains("row 3, column 1") && told.contains("f32"),
        "{told}"
    );
    weights[4] = f32::INFINITY;
    block_on(matrix.write(gpu, 2, &weights)).expect("f16 has infinity");
    let matrix = block_on(Matrix::new(gpu, 4, 3, WeightType::I8)).expect("a matrix");
    let error = block_on(matrix.write(gpu, 2, &weights)).expect_err("refused");
    assert!(error.to_string().contains("row 3, column 1"), "{error}");
}

#[test]
fn the_largest_are_those_that_a_sort_finds() {
    for gpu in gpus() {
        for (rows, values, best) in [
            (1, 1, 1),
            (3, 5, 8),
            (2, 1024, 64),
            (2, 5000, 50),
            (1, 70_000, 64),
        ] {
            top_k(gpu, rows, TopK { values, best });
        }
    }
}

fn top_k(gpu: &Gpu, rows: usize, top_k: TopK) {
    let TopK { values, best } = top_k;
    let mut layers = Layers::new(gpu);
    let mut logits = numbers(values as u64, rows * values);
    for (i, logit) in logits.iter_mut().enumerate() {
        match i % 11 {
            // Ties, some of them zeros of both signs.
            0 => *logit = (*logit * 4.0).round() / 4.0,
            5 if i % 2 == 0 => *logit = f32::NEG_INFINITY,
            7 if i % 3 == 0 => *logit = f32::NAN,
            8 if i % 40 == 0 => *logit = f32::INFINITY,
            _ => {}
        }
    }
    let (from, to) = (
        layers.input("values", &logits),
        layers.output("best", rows * top_k.row_words()),
    );
    layers.run(block_on(top_k.prepare(gpu, rows, &from, &to)));
    let got = top_k.read(&layers.read(&to));
    assert_eq!(got.len(), rows);
    for (row, got) in logits.chunks(values).zip(got) {
        let number = |&value: &f32| {
            if value.is_nan() {
                f32::NEG_INFINITY
            } else {
                value
            }
        };
        let mut expected: Vec<_> = row.iter().map(number).zip(0..).collect();
        expected.sort_by(|a, b| b.0.partial_cmp(&a.0).expect("no NaN").then(a.1.cmp(&b.1)));
        expected.resize(values.max(best), (f32::NEG_INFINITY, u32::MAX));
        assert_eq!(
            got.entries,
            expected[..best],
            "{values} numbers, best {best}"
        );
        let not_numbers = row.iter().filter(|value| value.is_nan()).count();
        assert_eq!(got.not_numbers as usize, not_numbers, "{values} numbers");
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let Some(gpu) = gpu() else { return };
    let matrix = block_on(Matrix::new(gpu, 4, 8, WeightType::F32)).expect("a matrix");
    for (row, len) in [(0, 7), (0, 40), (3, 16), (usize::MAX, 8)] {
        let error = block_on(matrix.write(gpu, row, &vec![0.0; len])).expect_err("refused");
        assert!(error.is_input(), "{error}");
    }
    let error = block_on(Matrix::within(gpu, [4, 8], WeightType::F32, 16)).expect_err("refused");
    assert!(error.is_unsupported(), "{error}");
    assert!(block_on(Matrix::new(gpu, 0, 8, WeightType::F32)).is_err());
    let layers = Layers::new(gpu);
    let buffer = |values| block_on(dla_wgpu::nn::buffer(gpu, "x", values)).expect("a buffer");
    let (small, large) = (buffer(8), buffer(32));
    let linear = Linear {
        weight: &matrix,
        bias: None,
        input: Input::Plain,
        residual: false,
    };
    let prepare = |x, y| block_on(linear.prepare(layers.gpu, rows(1, 2), x, y));
    for (x, y, argument) in [
        (&small, &large, "x"),
        (&large, &large, "y"),
        (&large, &buffer(4), "y"),
    ] {
        let error = prepare(x, y).expect_err("refused");
        assert!(error.is_input() && error.argument() == argument, "{error}");
    }
    let none = block_on(linear.prepare(gpu, rows(1, 0), &small, &large));
    assert_eq!(none.expect("nothing to do").len(), 0);
}
