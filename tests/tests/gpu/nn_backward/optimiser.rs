//! AdamW and the norm of all gradients.

use dla_tests::layers::{Layers, numbers};
use dla_wgpu::nn::backward::{AdamW, DecayRates, Decays, Parameter, Step};
use dla_wgpu::nn::{Matrix, WeightType};
use pollster::block_on;

use super::{bits, compare, held, matrix, wide};

const SIZES: [usize; 2] = [70, 130];
const VECTOR: usize = 35;
const DECAYS: Decays = Decays {
    period: 5,
    first: 4,
};

/// Step t of these tests.
fn step(t: i32, clip: f32) -> Step {
    let (beta1, beta2) = (0.9f32, 0.95f32);
    let correction = |beta: f32| (1.0 - f64::from(beta).powi(t)) as f32;
    Step {
        rate: 0.01,
        decay: 0.001,
        beta1,
        beta2,
        epsilon: 1e-8,
        corrections: [correction(beta1), correction(beta2)],
        clip,
    }
}

/// x, m and v after step t.
fn moved(state: &mut [Vec<f64>; 3], g: &[f64], step: &Step, scale: f64, decays: Decays) {
    let [x, m, v] = state;
    let [beta1, beta2, rate] = [step.beta1, step.beta2, step.rate].map(f64::from);
    let corrections = step.corrections.map(f64::from);
    for i in 0..x.len() {
        let g = scale * g[i];
        m[i] = beta1 * m[i] + (1.0 - beta1) * g;
        v[i] = beta2 * v[i] + (1.0 - beta2) * g * g;
        if i % decays.period < decays.first {
            x[i] -= f64::from(step.decay) * x[i];
        }
        let root = (v[i] / corrections[1]).sqrt() + f64::from(step.epsilon);
        x[i] -= rate * m[i] / corrections[0] / root;
    }
}

#[test]
fn adamw_follows_its_formula() {
    for clip in [1.0, f32::INFINITY] {
        let count = SIZES[0] * SIZES[1];
        let (x, y) = (numbers(1, count), numbers(2, VECTOR));
        let zeros = |x: &[f32]| [wide(x), vec![0.0; x.len()], vec![0.0; x.len()]];
        let (mut large, mut small) = (zeros(&x), zeros(&y));
        let gradients = |t: i32| {
            let seed = 10 * t as u64;
            (numbers(seed, count), numbers(seed + 1, VECTOR))
        };
        let mut norm = 0.0;
        for t in 1..=3 {
            let (g, h) = gradients(t);
            let squares = g.iter().chain(&h).map(|&g| f64::from(g).powi(2));
            norm = squares.sum::<f64>().sqrt();
            let step = step(t, clip);
            let scale = (f64::from(clip) / norm).min(1.0);
            moved(&mut large, &wide(&g), &step, scale, Decays::ALL);
            moved(&mut small, &wide(&h), &step, scale, DECAYS);
        }
        let scale = (f64::from(clip) / norm).min(1.0);
        let [x1, m1, v1] = large;
        let [x2, m2, v2] = small;
        compare(
            &format!("clip {clip}"),
            |gpu| {
                let zeros = || Matrix::within(gpu, SIZES, WeightType::F32, 16_000);
                let [g, m, v] = [(); 3].map(|()| block_on(zeros()).expect("a matrix"));
                let tensor = matrix(gpu, SIZES, &x, 16_000);
                let mut layers = Layers::new(gpu);
                let vector = layers.input("vector", &y);
                let [d, mean, square] =
                    ["d", "mean", "square"].map(|name| layers.input(name, &[0.0; VECTOR]));
                let mut parameters =
                    Parameter::of([&tensor, &g, &m, &v], Decays::ALL).expect("one shape");
                parameters.push(Parameter {
                    buffers: [&vector, &d, &mean, &square],
                    values: VECTOR,
                    decays: DECAYS,
                });
                let adamw = block_on(AdamW::new(gpu)).expect("an optimiser");
                for t in 1..=3 {
                    let (now, here) = gradients(t);
                    block_on(g.write(gpu, 0, &now)).expect("written");
                    gpu.queue().write_buffer(&d, 0, bytemuck::cast_slice(&here));
                    block_on(adamw.write(gpu, &step(t, clip))).expect("written");
                    layers.run(block_on(adamw.prepare(gpu, &parameters)));
                }
                let mut norm = Layers::new(gpu).read_plain(adamw.norm());
                norm.truncate(4);
                let matrices = [&tensor, &m, &v].map(|matrix| held(gpu, matrix));
                let vectors = [&vector, &mean, &square].map(|buffer| layers.values(buffer));
                [&matrices[..], &vectors[..], &[norm]].concat()
            },
            &[
                ("x", x1),
                ("m", m1),
                ("v", v1),
                ("vector's x", x2),
                ("vector's m", m2),
                ("vector's v", v2),
                ("norm", vec![norm, scale, 0.0, 0.0]),
            ],
        );
    }
}

#[test]
fn kind_34_a_gradient_that_is_not_finite_skips_the_step_and_says_so() {
    let Some(gpu) = dla_tests::gpu::gpu() else {
        return;
    };
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30] {
        let mut layers = Layers::new(gpu);
        let mut gradient = numbers(1, 5000);
        gradient[4999] = bad;
        let others = [2, 3, 4].map(|seed| numbers(seed, 5000));
        let g = layers.input("g", &gradient);
        let [x, m, v] = others
            .each_ref()
            .map(|values| layers.input("other", values));
        let adamw = block_on(AdamW::new(gpu)).expect("an optimiser");
        block_on(adamw.write(gpu, &step(1, 1.0))).expect("written");
        let parameter = Parameter {
            buffers: [&x, &g, &m, &v],
            values: 5000,
            decays: Decays::ALL,
        };
        let record = block_on(adamw.prepare(gpu, &[parameter]));
        layers.run(record);
        for (buffer, values) in [&x, &m, &v].into_iter().zip(&others) {
            assert_eq!(bits(&layers.values(buffer)), bits(values), "{bad}");
        }
        let norm = layers.read_plain(adamw.norm());
        assert!(!norm[0].is_finite(), "{norm:?}");
        assert_eq!(norm[2..4], [1.0, 1.0], "{bad}");
        gpu.queue().write_buffer(&g, 4 * 4999, &1f32.to_ne_bytes());
        layers.run(block_on(adamw.prepare(gpu, &[parameter])));
        let norm = layers.read_plain(adamw.norm());
        assert!(norm[0].is_finite(), "{norm:?}");
        assert_eq!(norm[2..4], [0.0, 1.0], "the next step goes on");
        assert_ne!(bits(&layers.values(&x)), bits(&others[0]));
    }
}

#[test]
fn kind_33_and_34_a_value_that_a_step_takes_out_of_the_finite_numbers_is_told() {
    let Some(gpu) = dla_tests::gpu::gpu() else {
        return;
    };
    // What stands in the last place, the rate, and whether the step loses it.
    for (last, rate, lost) in [
        (1.0, 0.01, false),
        (f32::MAX, -1e38, true),
        (1.0, f32::INFINITY, true),
        (1.0, f32::NAN, true),
        (f32::INFINITY, 0.01, false),
        (f32::NAN, 0.01, false),
    ] {
        let mut layers = Layers::new(gpu);
        let mut values = numbers(1, 5000);
        values[4999] = last;
        let mut gradient = vec![0.0; 5000];
        gradient[4999] = 1.0;
        let [x, g, m, v] = [values, gradient, vec![0.0; 5000], vec![0.0; 5000]]
            .map(|values| layers.input("array", &values));
        let adamw = block_on(AdamW::new(gpu)).expect("an optimiser");
        let parameter = Parameter {
            buffers: [&x, &g, &m, &v],
            values: 5000,
            decays: Decays::NONE,
        };
        let told = |rate| {
            let step = Step {
                rate,
                ..step(1, 1.0)
            };
            block_on(adamw.write(gpu, &step)).expect("written");
            layers.run(block_on(adamw.prepare(gpu, &[parameter])));
            let norm = layers.read_plain(adamw.norm());
            assert_eq!(norm[2], 0.0, "the step is taken");
            norm[4].to_bits() != 0
        };
        assert_eq!(told(rate), lost, "{last} at {rate}");
        assert!(!told(0.01), "what is lost is told once");
    }
}

#[test]
fn tensors_of_other_shapes_are_refused() {
    let Some(gpu) = dla_tests::gpu::gpu() else {
        return;
    };
    let room = |rows, weight_type| block_on(Matrix::new(gpu, rows, 8, weight_type)).expect("room");
    let (a, b) = (room(4, WeightType::F32), room(5, WeightType::F32));
    let half = room(4, WeightType::F16);
    let error = Parameter::of([&a, &a, &b, &a], Decays::ALL).expect_err("refused");
    assert_eq!(error.argument(), "mean", "{error}");
    let error = Parameter::of([&a, &half, &a, &a], Decays::ALL).expect_err("refused");
    assert!(error.is_unsupported(), "{error}");
}

#[test]
fn decay_rates_come_from_their_logarithms() {
    let trained = numbers(1, 15);
    let mut expected = wide(&trained);
    expected[5..10].iter_mut().for_each(|a| *a = -a.exp());
    compare(
        "3 arrays of 5 heads",
        |gpu| {
            let mut layers = Layers::new(gpu);
            let trained = layers.input("trained", &trained);
            let heads = layers.output("heads", 15);
            let rates = DecayRates {
                heads: 5,
                arrays: 3,
            };
            layers.run(block_on(rates.prepare(gpu, &trained, &heads)));
            vec![layers.values(&heads)]
        },
        &[("heads", expected)],
    );
}
