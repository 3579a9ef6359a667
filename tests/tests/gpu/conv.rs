//! The convolution, against its twin in dla-core.

use dla_core::nn::CausalConv;
use dla_core::nn::activation::silu;
use dla_tests::gpu::{gpu, gpus};
use dla_tests::layers::{Layers, numbers, rows};
use dla_tests::tolerance::{assert_near, wide};
use dla_wgpu::Gpu;
use dla_wgpu::nn::{Conv, ConvSpec, Rows};
use pollster::block_on;

const TOLERANCE: f64 = 1e-6;

/// A convolution with its state and input on the device.
struct Convolution<'a> {
    layers: Layers<'a>,
    spec: ConvSpec,
    weight: wgpu::Buffer,
    state: wgpu::Buffer,
}

impl<'a> Convolution<'a> {
    fn new(gpu: &'a Gpu, spec: ConvSpec, batch: usize) -> Self {
        let mut layers = Layers::new(gpu);
        let bias = numbers(2, spec.channels);
        let packed = spec
            .pack(&kernel(&spec), Some(&bias))
            .expect("sizes that fit");
        let weight = layers.input("weight", &packed);
        let state = layers.input("state", &numbers(3, spec.state_len(batch)));
        Self {
            layers,
            spec,
            weight,
            state,
        }
    }

    fn run(&mut self, rows: Rows, lengths: &[u32], projected: &[f32]) -> Vec<f32> {
        let items = self.layers.items(lengths);
        let count = rows.batch * rows.tokens;
        let projected = self.layers.input("projected", projected);
        let mixed = self.layers.output("mixed", count * self.spec.channels);
        let conv = Conv {
            spec: self.spec,
            weight: &self.weight,
        };
        let buffers = [&projected, &self.state, &mixed];
        let prepared = block_on(conv.prepare(self.layers.gpu, rows, &items, buffers));
        self.layers.run(prepared);
        self.layers.values(&mixed)
    }

    fn state(&self) -> Vec<f32> {
        self.layers.values(&self.state)
    }
}

fn kernel(spec: &ConvSpec) -> Vec<f32> {
    numbers(1, spec.channels * spec.width)
}

/// The columns that the convolution reads of the rows of item `b`.
fn input(spec: &ConvSpec, rows: Rows, b: usize, projected: &[f32]) -> Vec<f32> {
    let rows = projected
        .chunks(spec.stride)
        .skip(b * rows.tokens)
        .take(rows.tokens);
    rows.flat_map(|row| &row[spec.first..spec.first + spec.channels])
        .copied()
        .collect()
}

#[test]
fn conv_equals_its_twin_at_unequal_lengths() {
    let lengths = [20, 0, 2, 7];
    for gpu in gpus() {
        for (channels, width) in [(1, 1), (36, 4), (65, 3), (130, 8)] {
            let spec = ConvSpec {
                stride: channels + 5,
                first: 3,
                channels,
                width,
            };
            let rows = rows(4, 20);
            let mut convolution = Convolution::new(gpu, spec, 4);
            let projected = numbers(4, 80 * spec.stride);
            let mixed = convolution.run(rows, &lengths, &projected);
            let after = convolution.state();
            let twin = CausalConv::new(channels, kernel(&spec), Some(numbers(2, channels)));
            let before = numbers(3, spec.state_len(4));
            let item = spec.state_len(1);
            let name = format!("{channels} channels, {width} wide");
            for (b, &length) in lengths.iter().enumerate() {
                let mut state = before[b * item..][..item].to_vec();
                let x = input(&spec, rows, b, &projected);
                let mut expected = twin.forward(&x[..length as usize * channels], &mut state);
                expected.iter_mut().for_each(|x| *x = silu(*x));
                expected.resize(20 * channels, 0.0);
                let got = &mixed[b * 20 * channels..][..20 * channels];
                assert_near(&name, "mixed", got, &wide(&expected), TOLERANCE);
                assert_eq!(
                    after[b * item..][..item],
                    state,
                    "{name}: state of item {b}"
                );
            }
        }
    }
}

#[test]
fn kind_01_conv_in_pieces_is_the_same_bit_for_bit() {
    let Some(gpu) = gpu() else { return };
    let spec = ConvSpec {
        stride: 36,
        first: 0,
        channels: 36,
        width: 4,
    };
    let projected = numbers(4, 20 * spec.stride);
    let mut whole = Convolution::new(gpu, spec, 1);
    let expected = whole.run(rows(1, 20), &[20], &projected);
    for split in [1, 2, 3, 4, 19] {
        let mut parts = Convolution::new(gpu, spec, 1);
        let (first, second) = projected.split_at(split * spec.stride);
        let mut got = parts.run(rows(1, split), &[split as u32], first);
        got.extend(parts.run(rows(1, 20 - split), &[20 - split as u32], second));
        assert_eq!(got, expected, "split at {split}");
        assert_eq!(parts.state(), whole.state(), "split at {split}");
    }
}
