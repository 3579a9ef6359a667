//! What the mixers give the operator, against the functions of dla-core.

use dla_core::dla::readout::weight_index;
use dla_core::nn::activation::{sigmoid, softplus};
use dla_core::nn::{decay, norm};
use dla_core::{Dims, Schedule};
use dla_tests::cases::dims;
use dla_tests::gpu::gpus;
use dla_tests::layers::{Layers, numbers, rows};
use dla_wgpu::nn::{
    DeltaArrays, DeltaArraysSpec, Mamba2Arrays, Mamba2ArraysSpec, ReadColumns, Sources,
};
use dla_wgpu::op::Arrays;
use dla_wgpu::{Float, Gpu};
use pollster::block_on;

/// The operator's arrays with guards; what the layers do not touch is small.
fn arrays(layers: &mut Layers<'_>, rows: usize, dims: &Dims) -> Arrays {
    let keys = rows * dims.groups * dims.key_dim;
    let control = rows * dims.heads * (2 + dims.capacity);
    Arrays {
        q: layers.output("q", keys),
        k: layers.output("k", keys),
        v: layers.output("v", rows * dims.heads * dims.value_dim),
        control: layers.output("control", control),
        o: layers.output("o", 1),
        trace: layers.output("trace", 1),
        trace_offset: 0,
        tau: layers.output("tau", 1),
        lengths: layers.items(&[0]),
    }
}

/// The rows of an array by columns, as one call sees them.
struct Table<'a> {
    values: &'a [f32],
    stride: usize,
}

impl<'a> Table<'a> {
    fn part(&self, row: usize, first: usize, count: usize) -> &'a [f32] {
        &self.values[row * self.stride + first..][..count]
    }
}

/// λ of a row by rank, from the projection's columns.
fn lambda(
    dims: &Dims,
    read: ReadColumns,
    weights: &[f32],
    projected: &Table<'_>,
    row: usize,
    position: u64,
) -> Vec<f32> {
    let (h, k) = (dims.heads, dims.capacity);
    let count = (position - 1).count_ones() as usize + 1;
    let of = |head: usize, rank: usize| {
        if read.fenwick && rank >= count {
            return 0.0;
        }
        let Some(column) = read.column else {
            return 1.0;
        };
        let index = if read.fenwick {
            weight_index(Schedule::Fenwick, position, count, count - 1 - rank)
        } else {
            rank
        };
        let at = head * k + index;
        softplus(weights[at] * projected.part(row, column + at, 1)[0] + weights[h * k + at])
    };
    (0..h * k).map(|i| of(i / k, i % k)).collect()
}

/// The ways that λ arrives.
const READS: [ReadColumns; 4] = [
    ReadColumns {
        column: Some(2),
        fenwick: false,
    },
    ReadColumns {
        column: Some(2),
        fenwick: true,
    },
    ReadColumns {
        column: None,
        fenwick: false,
    },
    ReadColumns {
        column: None,
        fenwick: true,
    },
];
const POSITIONS: [u32; 2] = [0, 11];
const TOKENS: usize = 5;

/// What both mixers' arrays are made from in a test.
struct Given<'a> {
    layers: Layers<'a>,
    dims: Dims,
    stride: usize,
    mixed: Vec<f32>,
    projected: Vec<f32>,
    heads: Vec<f32>,
    weights: Vec<f32>,
}

impl<'a> Given<'a> {
    fn new(gpu: &'a Gpu, dims: Dims) -> Self {
        let stride = 2 + dims.heads * (dims.capacity + 2) + 1;
        let count = POSITIONS.len() * TOKENS;
        let mixed_row = dims.heads * dims.value_dim + 2 * dims.groups * dims.key_dim;
        Self {
            layers: Layers::new(gpu),
            dims,
            stride,
            mixed: numbers(1, count * mixed_row),
            projected: numbers(2, count * stride),
            heads: numbers(3, 3 * dims.heads),
            weights: numbers(4, 2 * dims.heads * dims.capacity),
        }
    }

    fn table(&self) -> Table<'_> {
        Table {
            values: &self.projected,
            stride: self.stride,
        }
    }

    fn mixed_table(&self) -> Table<'_> {
        let dims = &self.dims;
        let stride = dims.heads * dims.value_dim + 2 * dims.groups * dims.key_dim;
        Table {
            values: &self.mixed,
            stride,
        }
    }

    /// The first column behind λ.
    fn behind(&self) -> usize {
        2 + self.dims.heads * self.dims.capacity
    }

    /// The records of control from g, β and λ.
    fn control(&self, read: ReadColumns, g_beta: impl Fn(usize, usize) -> [f32; 2]) -> Vec<f32> {
        let (h, k) = (self.dims.heads, self.dims.capacity);
        let mut control = Vec::new();
        for row in 0..POSITIONS.len() * TOKENS {
            let position = u64::from(POSITIONS[row / TOKENS]) + (row % TOKENS) as u64 + 1;
            let lambda = lambda(
                &self.dims,
                read,
                &self.weights,
                &self.table(),
                row,
                position,
            );
            for head in 0..h {
                control.extend(g_beta(row, head));
                control.extend(&lambda[head * k..][..k]);
            }
        }
        control
    }

    /// Columns `[first, first + count)` of all rows of mixed.
    fn columns(&self, first: usize, count: usize) -> Vec<f32> {
        let table = self.mixed_table();
        let rows = 0..POSITIONS.len() * TOKENS;
        rows.flat_map(|row| table.part(row, first, count))
            .copied()
            .collect()
    }
}

#[test]
fn mamba2_arrays_equal_the_mixer() {
    for gpu in gpus() {
        for read in READS {
            mamba2_arrays(gpu, dims([2, TOKENS, 4, 2, 12, 9, 6]), read, [0.01, 1.5]);
        }
        mamba2_arrays(
            gpu,
            dims([2, TOKENS, 3, 1, 37, 65, 5]),
            READS[0],
            [0.0, f32::INFINITY],
        );
    }
}

/// Δ's bias and A_log by head: decays that nothing is left of, that leave all, and ordinary ones of factors that f32
/// cannot hold.
const FAR: [[f32; 2]; 9] = [
    [0.0, 100.0],
    [-60.0, 60.0],
    [-99.0, 100.0],
    [-101.0, 100.0],
    [-300.0, 100.0],
    [-3e38, 100.0],
    [-88.0, 87.5],
    [3e38, 0.0],
    [3e38, 3e38],
];

/// e^g of Δ = softplus(step), in double precision.
fn decayed(step: f32, a_log: f32) -> f64 {
    let step = f64::from(step);
    let log_size = if step < -700.0 {
        step
    } else {
        softplus(step).ln()
    };
    (-(f64::from(a_log) + log_size).exp()).exp()
}

#[test]
fn kind_39_decays_far_out_are_those_of_double_precision() {
    let dims = dims([2, TOKENS, FAR.len(), 1, 5, 4, 2]);
    for gpu in gpus() {
        for delta in [false, true] {
            let mut given = Given::new(gpu, dims);
            let far = |given: &mut [f32]| {
                for (head, [bias, a_log]) in FAR.into_iter().enumerate() {
                    (given[head], given[FAR.len() + head]) = (bias, decay::rate(a_log));
                }
            };
            far(&mut given.heads);
            let column = given.behind();
            let (mixed, projected) = (given.mixed.clone(), given.projected.clone());
            let layers = &mut given.layers;
            let arrays = arrays(layers, POSITIONS.len() * TOKENS, &dims);
            let sources = Sources {
                mixed: &layers.input("mixed", &mixed),
                projected: &layers.input("projected", &projected),
                positions: &layers.items(&POSITIONS),
            };
            let heads = layers.input("heads", &given.heads);
            let (stride, lambda, float) = (given.stride, READS[2], Float::F32);
            let rows = rows(2, TOKENS);
            let dispatches = match delta {
                true => {
                    let (a, b, most) = (column, column + dims.heads, 1.0);
                    let spec = DeltaArraysSpec {
                        dims,
                        stride,
                        a,
                        b,
                        lambda,
                        most,
                        float,
                    };
                    let mixer = DeltaArrays {
                        spec,
                        heads: &heads,
                        read_weights: None,
                    };
                    block_on(mixer.prepare(gpu, rows, &sources, &arrays))
                }
                false => {
                    let (dt, dt_limit) = (column, [0.0, f32::INFINITY]);
                    let spec = Mamba2ArraysSpec {
                        dims,
                        stride,
                        dt,
                        lambda,
                        dt_limit,
                        float,
                    };
                    let mixer = Mamba2Arrays {
                        spec,
                        heads: &heads,
                        read_weights: None,
                    };
                    block_on(mixer.prepare(gpu, rows, &sources, &arrays))
                }
            };
            layers.run(dispatches);
            let control = given.layers.values(&arrays.control);
            for (at, record) in control.chunks(2 + dims.capacity).enumerate() {
                let (row, head) = (at / dims.heads, at % dims.heads);
                let [bias, a_log] = FAR[head];
                let step = projected[row * given.stride + column + head] + bias;
                let (got, want) = (f64::from(record[0]).exp(), decayed(step, a_log));
                let setting = format!("delta {delta}, bias {bias}, A_log {a_log}");
                assert!((got - want).abs() < 5e-5, "{setting}: {got}, not {want}");
                assert!(record[0] >= -110.0, "{setting}: g {}", record[0]);
            }
        }
    }
}

fn mamba2_arrays(gpu: &Gpu, dims: Dims, read: ReadColumns, dt_limit: [f32; 2]) {
    let mut given = Given::new(gpu, dims);
    let dt = given.behind();
    // Both ends, and what must not be hidden.
    for (row, value) in [100.0, -60.0, f32::NAN, f32::INFINITY]
        .into_iter()
        .enumerate()
    {
        given.projected[row * given.stride + dt] = value;
    }
    let (mixed, projected) = (given.mixed.clone(), given.projected.clone());
    let layers = &mut given.layers;
    let arrays = arrays(layers, POSITIONS.len() * TOKENS, &dims);
    let sources = Sources {
        mixed: &layers.input("mixed", &mixed),
        projected: &layers.input("projected", &projected),
        positions: &layers.items(&POSITIONS),
    };
    let heads = layers.input("heads", &given.heads);
    let weights = layers.input("read_weights", &given.weights);
    let spec = Mamba2ArraysSpec {
        dims,
        stride: given.stride,
        dt,
        lambda: read,
        dt_limit,
        float: Float::F32,
    };
    let mixer = Mamba2Arrays {
        spec,
        heads: &heads,
        read_weights: Some(&weights),
    };
    layers.run(block_on(mixer.prepare(
        gpu,
        rows(2, TOKENS),
        &sources,
        &arrays,
    )));

    let before = |row, head: usize| given.table().part(row, dt + head, 1)[0] + given.heads[head];
    let step = |row, head| softplus(before(row, head)).clamp(dt_limit[0], dt_limit[1]);
    let (inner, keys) = (dims.heads * dims.value_dim, dims.groups * dims.key_dim);
    let mut v = given.columns(0, inner);
    for (i, v) in v.iter_mut().enumerate() {
        *v *= step(i / inner, i % inner / dims.value_dim);
    }
    let g_beta = |row, head: usize| {
        let rate = given.heads[dims.heads + head];
        [
            decay::log_decay(rate, before(row, head), step(row, head)),
            1.0,
        ]
    };
    let name = format!("{dims:?} {read:?}");
    let near = |array, buffer, expected: &[f32]| {
        same_faults(&name, array, &given.layers.values(buffer), expected);
    };
    near("q", &arrays.q, &given.columns(inner + keys, keys));
    near("k", &arrays.k, &given.columns(inner, keys));
    near("v", &arrays.v, &v);
    near("control", &arrays.control, &given.control(read, g_beta));
}

/// Near, infinite and NaN at the same places, and small numbers as near as large ones.
#[track_caller]
fn same_faults(name: &str, array: &str, got: &[f32], expected: &[f32]) {
    assert_eq!(got.len(), expected.len(), "{name}, {array}");
    for (at, (&got, &expected)) in got.iter().zip(expected).enumerate() {
        let near = (got - expected).abs() <= 4e-6 * expected.abs();
        let same = near || got == expected || (got.is_nan() && expected.is_nan());
        assert!(
            same,
            "{name}, {array} at {at}: got {got}, expected {expected}"
        );
    }
}

#[test]
fn delta_arrays_equal_the_mixer() {
    for gpu in gpus() {
        for read in READS {
            delta_arrays(gpu, dims([2, TOKENS, 4, 2, 12, 9, 6]), read, 1.0, 1.0);
        }
        let wide = dims([2, TOKENS, 3, 3, 256, 130, 5]);
        delta_arrays(gpu, wide, READS[0], 2.0, 1.0);
    }
}

#[test]
fn kind_40_queries_and_keys_are_of_unit_length_at_every_magnitude() {
    for gpu in gpus() {
        for size in [1e20, 1e37, 1e-25] {
            delta_arrays(gpu, dims([2, TOKENS, 4, 2, 12, 9, 6]), READS[0], 1.0, size);
        }
    }
}

/// What the convolution gives is of about `size`.
fn delta_arrays(gpu: &Gpu, dims: Dims, read: ReadColumns, most: f32, size: f32) {
    let mut given = Given::new(gpu, dims);
    given.mixed.iter_mut().for_each(|x| *x *= size);
    let a = given.behind();
    let b = a + dims.heads;
    for (row, value) in [100.0, -60.0, f32::NAN].into_iter().enumerate() {
        given.projected[row * given.stride + a] = value;
        given.projected[row * given.stride + b] = value;
    }
    let (mixed, projected) = (given.mixed.clone(), given.projected.clone());
    let layers = &mut given.layers;
    let arrays = arrays(layers, POSITIONS.len() * TOKENS, &dims);
    let sources = Sources {
        mixed: &layers.input("mixed", &mixed),
        projected: &layers.input("projected", &projected),
        positions: &layers.items(&POSITIONS),
    };
    let heads = layers.input("heads", &given.heads);
    let weights = layers.input("read_weights", &given.weights);
    let spec = DeltaArraysSpec {
        dims,
        stride: given.stride,
        a,
        b,
        lambda: read,
        most,
        float: Float::F32,
    };
    let mixer = DeltaArrays {
        spec,
        heads: &heads,
        read_weights: Some(&weights),
    };
    layers.run(block_on(mixer.prepare(
        gpu,
        rows(2, TOKENS),
        &sources,
        &arrays,
    )));

    let (inner, keys) = (dims.heads * dims.value_dim, dims.groups * dims.key_dim);
    let (mut q, mut k) = (given.columns(0, keys), given.columns(keys, keys));
    norm::l2(
        &mut q,
        dims.key_dim,
        1e-6,
        1.0 / (dims.key_dim as f32).sqrt(),
    );
    norm::l2(&mut k, dims.key_dim, 1e-6, 1.0);
    let g_beta = |row, head: usize| {
        let column = |first| given.table().part(row, first + head, 1)[0];
        let step = column(a) + given.heads[head];
        let g = decay::log_decay(given.heads[dims.heads + head], step, softplus(step));
        [g, most * sigmoid(column(b))]
    };
    let name = format!("{dims:?} {read:?}");
    let near = |array, buffer, expected: &[f32]| {
        same_faults(&name, array, &given.layers.values(buffer), expected);
    };
    near("q", &arrays.q, &q);
    near("k", &arrays.k, &k);
    near("v", &arrays.v, &given.columns(2 * keys, inner));
    near("control", &arrays.control, &given.control(read, g_beta));
}
