//! What the mixers make of the operator's output, against the norms of dla-core.

use dla_core::Dims;
use dla_core::nn::RmsNorm;
use dla_tests::cases::dims;
use dla_tests::gpu::gpus;
use dla_tests::layers::{Layers, numbers, rows};
use dla_tests::tolerance::{assert_near, wide};
use dla_wgpu::nn::{DeltaOutput, DeltaOutputSpec, Mamba2Output, Mamba2OutputSpec};
use dla_wgpu::{Float, Gpu};
use pollster::block_on;

const TOLERANCE: f64 = 1e-6;

#[test]
fn mamba2_output_equals_the_mixer() {
    for gpu in gpus() {
        for (sizes, norm_groups) in [([1, 3, 4, 2, 12, 9, 1], 2), ([1, 9, 5, 1, 3, 65, 1], 1)] {
            mamba2_output(gpu, dims(sizes), norm_groups, PLAIN);
        }
    }
}

/// The operator's output far beyond the range of squares; ε outweighs what is far below it, unless it is 0.
#[test]
fn kind_40_the_norms_of_outputs_are_right_at_every_magnitude() {
    for gpu in gpus() {
        for scaled in MAGNITUDES {
            mamba2_output(gpu, dims([1, 3, 4, 2, 12, 9, 1]), 2, scaled);
            mamba2_output(gpu, dims([1, 2, 5, 1, 3, 65, 1]), 1, scaled);
            delta_output(gpu, dims([1, 3, 4, 2, 12, 9, 1]), Some(2), scaled);
            delta_output(gpu, dims([1, 4, 2, 1, 3, 300, 1]), None, scaled);
        }
    }
}

/// What numbers of about 1 are multiplied by, and ε.
type Magnitude = (f32, f32);
const PLAIN: Magnitude = (1.0, 1e-5);
const MAGNITUDES: [Magnitude; 5] = [
    (1e20, 1e-5),
    (1e36, 1e-5),
    (1e-25, 1e-5),
    (1e-25, 0.0),
    (1e-30, 0.0),
];

fn mamba2_output(gpu: &Gpu, dims: Dims, norm_groups: usize, (size, epsilon): Magnitude) {
    let (count, inner) = (dims.tokens, dims.heads * dims.value_dim);
    let (mixed_row, stride) = (inner + 2 * dims.groups * dims.key_dim, inner + 3);
    let mut layers = Layers::new(gpu);
    let [o, mixed] =
        [(1, inner), (2, mixed_row)].map(|(seed, row)| scaled(seed, count * row, size));
    let (projected, heads) = (numbers(3, count * stride), numbers(4, 3 * dims.heads));
    let weight = numbers(5, inner);
    let buffers = [
        &layers.input("o", &o),
        &layers.input("mixed", &mixed),
        &layers.input("projected", &projected),
    ];
    let y = layers.output("y", count * inner);
    let output = Mamba2Output {
        spec: Mamba2OutputSpec {
            dims,
            stride,
            z: 1,
            norm_groups,
            epsilon,
            float: Float::F32,
        },
        heads: &layers.input("heads", &heads),
        weight: &layers.input("weight", &weight),
    };
    layers.run(block_on(output.prepare(gpu, rows(1, count), buffers, &y)));
    let (mut skipped, mut gate) = (Vec::new(), Vec::new());
    for row in 0..count {
        for e in 0..inner {
            let d = heads[2 * dims.heads + e / dims.value_dim];
            skipped.push(o[row * inner + e] + d * mixed[row * mixed_row + e]);
            gate.push(projected[row * stride + 1 + e]);
        }
    }
    let norm = RmsNorm::new(wide(&weight), epsilon.into()).grouped(norm_groups);
    let expected = norm.gate_first(&wide(&skipped), &wide(&gate));
    let name = format!("{dims:?}, {size:e}");
    assert_near(&name, "y", &layers.values(&y), &expected, TOLERANCE);
}

#[test]
fn delta_output_equals_the_mixer() {
    for gpu in gpus() {
        for sizes in [
            [1, 3, 4, 2, 12, 9, 1],
            [1, 9, 2, 1, 3, 256, 1],
            [1, 4, 2, 1, 3, 300, 1],
        ] {
            for gate in [Some(2), None] {
                delta_output(gpu, dims(sizes), gate, PLAIN);
            }
        }
    }
}

/// Numbers of about `size`.
fn scaled(seed: u64, len: usize, size: f32) -> Vec<f32> {
    numbers(seed, len).iter().map(|x| x * size).collect()
}

fn delta_output(gpu: &Gpu, dims: Dims, gate: Option<usize>, (size, epsilon): Magnitude) {
    let (count, inner) = (dims.tokens, dims.heads * dims.value_dim);
    let stride = inner + 3;
    let mut layers = Layers::new(gpu);
    let (o, projected) = (scaled(1, count * inner, size), numbers(2, count * stride));
    let weight = numbers(3, dims.value_dim);
    let buffers = [
        &layers.input("o", &o),
        &layers.input("projected", &projected),
    ];
    let y = layers.output("y", count * inner);
    let output = DeltaOutput {
        spec: DeltaOutputSpec {
            dims,
            stride,
            gate,
            epsilon,
            float: Float::F32,
        },
        weight: &layers.input("weight", &weight),
    };
    layers.run(block_on(output.prepare(gpu, rows(1, count), buffers, &y)));
    let norm = RmsNorm::new(wide(&weight), epsilon.into());
    let expected = match gate {
        Some(first) => {
            let rows = projected.chunks(stride);
            let gates: Vec<_> = rows
                .flat_map(|row| &row[first..first + inner])
                .map(|&gate| f64::from(gate))
                .collect();
            norm.norm_first(&wide(&o), &gates)
        }
        None => norm.forward(&wide(&o)),
    };
    let name = format!("{dims:?} {gate:?}, {size:e}");
    assert_near(&name, "y", &layers.values(&y), &expected, TOLERANCE);
}
