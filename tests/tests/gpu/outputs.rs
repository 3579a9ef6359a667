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
            mamba2_output(gpu, dims(sizes), norm_groups);
        }
    }
}

fn mamba2_output(gpu: &Gpu, dims: Dims, norm_groups: usize) {
    let (count, inner) = (dims.tokens, dims.heads * dims.value_dim);
    let (mixed_row, stride) = (inner + 2 * dims.groups * dims.key_dim, inner + 3);
    let mut layers = Layers::new(gpu);
    let (o, mixed) = (numbers(1, count * inner), numbers(2, count * mixed_row));
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
            epsilon: 1e-5,
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
    let norm = RmsNorm::new(weight, 1e-5).grouped(norm_groups);
    let expected = norm.gate_first(&skipped, &gate);
    let name = format!("{dims:?}");
    assert_near(&name, "y", &layers.values(&y), &wide(&expected), TOLERANCE);
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
                delta_output(gpu, dims(sizes), gate);
            }
        }
    }
}

fn delta_output(gpu: &Gpu, dims: Dims, gate: Option<usize>) {
    let (count, inner) = (dims.tokens, dims.heads * dims.value_dim);
    let stride = inner + 3;
    let mut layers = Layers::new(gpu);
    let (o, projected) = (numbers(1, count * inner), numbers(2, count * stride));
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
            epsilon: 1e-5,
            float: Float::F32,
        },
        weight: &layers.input("weight", &weight),
    };
    layers.run(block_on(output.prepare(gpu, rows(1, count), buffers, &y)));
    let norm = RmsNorm::new(weight, 1e-5);
    let expected = match gate {
        Some(first) => {
            let rows = projected.chunks(stride);
            let gates: Vec<_> = rows
                .flat_map(|row| &row[first..first + inner])
                .copied()
                .collect();
            norm.norm_first(&o, &gates)
        }
        None => norm.forward(&o),
    };
    let name = format!("{dims:?} {gate:?}");
    assert_near(&name, "y", &layers.values(&y), &wide(&expected), TOLERANCE);
}
