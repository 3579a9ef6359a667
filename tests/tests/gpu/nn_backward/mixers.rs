//! What the mixers do around the operator, backwards, against finite differences of the formulas.

use dla_core::Dims;
use dla_core::nn::activation::{sigmoid, silu, softplus};
use dla_core::nn::decay::rate;
use dla_tests::cases::dims;
use dla_tests::layers::{Layers, numbers, rows};
use dla_wgpu::nn::backward::{
    ArrayGradients, DeltaArraysGradient, DeltaOutputGradient, Mamba2ArraysGradient,
    Mamba2OutputGradient, ReadWeightsGradient, ReadWeightsGradientSpec,
};
use dla_wgpu::nn::{
    DeltaArraysSpec, DeltaOutputSpec, Mamba2ArraysSpec, Mamba2OutputSpec, ReadColumns,
};
use dla_wgpu::{Float, Gpu};
use pollster::block_on;

use super::{TOLERANCE, compare_within, differences, dot, positive, scratch, sum, wide};

const BATCH: usize = 2;
const TOKENS: usize = 3;
const ROWS: usize = BATCH * TOKENS;
const POSITIONS: [u32; BATCH] = [0, 5];
/// Large, as a norm of one value has no gradient but what ε leaves.
const EPSILON: f32 = 0.1;

/// The arrays of one test: what the forward pass took, and the gradients by what it gave.
struct Mixer {
    dims: Dims,
    stride: usize,
    /// First columns of the gate, of the decay, of the write strength and of λ.
    columns: [usize; 4],
    fenwick: bool,
    mixed: Vec<f32>,
    projected: Vec<f32>,
    o: Vec<f32>,
    /// As trained: Δ's bias, A_log and D.
    heads: Vec<f32>,
    read_weights: Vec<f32>,
    weight: Vec<f32>,
    d_y: Vec<f32>,
    d_q: Vec<f32>,
    d_k: Vec<f32>,
    d_v: Vec<f32>,
    d_control: Vec<f32>,
}

impl Mixer {
    fn new(sizes: [usize; 5], fenwick: bool, norm: usize) -> Self {
        let [h, g, key, value, k] = sizes;
        let (inner, keys) = (h * value, g * key);
        let columns = [1, 1 + inner, 1 + inner + h, 2 + inner + 2 * h];
        let stride = columns[3] + h * k + 1;
        Self {
            dims: dims([BATCH, TOKENS, h, g, key, value, k]),
            stride,
            columns,
            fenwick,
            mixed: numbers(1, ROWS * (inner + 2 * keys)),
            projected: numbers(2, ROWS * stride),
            o: numbers(3, ROWS * inner),
            heads: numbers(4, 3 * h),
            read_weights: numbers(5, 2 * h * k),
            weight: positive(6, norm),
            d_y: numbers(7, ROWS * inner),
            d_q: numbers(8, ROWS * keys),
            d_k: numbers(9, ROWS * keys),
            d_v: numbers(10, ROWS * inner),
            d_control: numbers(11, ROWS * h * (2 + k)),
        }
    }

    /// The operator's output times `o`, the first two parts of `mixed` times `keys`.
    fn scaled(mut self, o: f32, keys: f32) -> Self {
        self.o.iter_mut().for_each(|x| *x *= o);
        let (row, first) = (self.mixed_row(), 2 * self.keys());
        for row in self.mixed.chunks_mut(row) {
            row[..first].iter_mut().for_each(|x| *x *= keys);
        }
        self
    }

    /// Head 0 decays by e^60 times softplus(about −60).
    fn far(mut self) -> Self {
        let h = self.dims.heads;
        (self.heads[0], self.heads[h]) = (-60.0, 60.0);
        self
    }

    /// Relative rms: a factor e^60 has an exponent that is good to 60 · 2⁻²⁴ in f32.
    fn tolerance(&self) -> f64 {
        if self.heads[0] < -40.0 {
            3.0 * TOLERANCE
        } else {
            TOLERANCE
        }
    }

    fn inner(&self) -> usize {
        self.dims.heads * self.dims.value_dim
    }

    fn keys(&self) -> usize {
        self.dims.groups * self.dims.key_dim
    }

    fn mixed_row(&self) -> usize {
        self.inner() + 2 * self.keys()
    }

    fn lambda(&self) -> ReadColumns {
        ReadColumns {
            column: Some(self.columns[3]),
            fenwick: self.fenwick,
        }
    }

    /// The heads as the passes take them.
    fn device_heads(&self) -> Vec<f32> {
        let mut heads = self.heads.clone();
        let h = self.dims.heads;
        heads[h..2 * h].iter_mut().for_each(|a| *a = rate(*a));
        heads
    }

    /// The read weights' part of the loss.
    fn read_loss(&self, projected: &[f64], read_weights: &[f64]) -> f64 {
        let (h, k) = (self.dims.heads, self.dims.capacity);
        let mut loss = 0.0;
        for row in 0..ROWS {
            let before = POSITIONS[row / TOKENS] + (row % TOKENS) as u32;
            for rank in 0..k {
                let Some(index) = self.index(rank, before) else {
                    continue;
                };
                for head in 0..h {
                    let at = head * k + index;
                    let p = projected[row * self.stride + self.columns[3] + at];
                    let lambda = softplus(read_weights[at] * p + read_weights[h * k + at]);
                    loss += lambda * self.d(row, head, 2 + rank);
                }
            }
        }
        loss
    }

    /// Which read weight a rank has, after `before` tokens and one more.
    fn index(&self, rank: usize, before: u32) -> Option<usize> {
        if !self.fenwick || rank == 0 {
            return Some(rank);
        }
        let levels = (0..32).filter(|level| before >> level & 1 == 1);
        levels.map(|level| level + 1).nth(rank - 1)
    }

    /// The gradient by an entry of the operator's control.
    fn d(&self, row: usize, head: usize, entry: usize) -> f64 {
        let at = (row * self.dims.heads + head) * (2 + self.dims.capacity) + entry;
        self.d_control[at].into()
    }

    /// A row's column of the gate.
    fn gate(&self, row: usize, e: usize) -> usize {
        row * self.stride + self.columns[0] + e
    }

    /// Splits all numbers into mixed, projected, o, heads, read weights and weight.
    fn split<'a>(&self, mut all: &'a [f64]) -> [&'a [f64]; 6] {
        self.all().map(|part| {
            let (own, rest) = all.split_at(part.len());
            all = rest;
            own
        })
    }

    fn all(&self) -> [&[f32]; 6] {
        [
            &self.mixed,
            &self.projected,
            &self.o,
            &self.heads,
            &self.read_weights,
            &self.weight,
        ]
    }

    /// The gradients of `loss` by all numbers, in their parts.
    fn gradients(&self, loss: impl Fn(&[f64]) -> f64) -> [Vec<f64>; 6] {
        let all = wide(&self.all().concat());
        let gradients = differences(&all, loss);
        self.split(&gradients).map(<[f64]>::to_vec)
    }

    /// Mamba-2's loss.
    fn mamba2(&self, all: &[f64], norm_groups: usize, limit: [f64; 2]) -> f64 {
        let [mixed, projected, o, heads, read_weights, weight] = self.split(all);
        let (h, width, inner, keys) = (
            self.dims.heads,
            self.dims.value_dim,
            self.inner(),
            self.keys(),
        );
        let mut loss = self.read_loss(projected, read_weights);
        for row in 0..ROWS {
            let mixed = &mixed[row * self.mixed_row()..][..self.mixed_row()];
            loss += dot(&mixed[inner..inner + keys], &self.d_k[row * keys..][..keys]);
            loss += dot(&mixed[inner + keys..], &self.d_q[row * keys..][..keys]);
            let mut y = vec![0.0; inner];
            for head in 0..h {
                let step = projected[row * self.stride + self.columns[1] + head] + heads[head];
                let dt = softplus(step).clamp(limit[0], limit[1]);
                loss += dt * -heads[h + head].exp() * self.d(row, head, 0);
                for e in head * width..(head + 1) * width {
                    loss += dt * mixed[e] * f64::from(self.d_v[row * inner + e]);
                    let z = projected[self.gate(row, e)];
                    y[e] = (o[row * inner + e] + heads[2 * h + head] * mixed[e]) * silu(z);
                }
            }
            loss += self.normed(row, &y, weight, inner / norm_groups);
        }
        loss
    }

    /// Gated DeltaNet's loss.
    fn delta(&self, all: &[f64], gated: bool, most: f64) -> f64 {
        let [mixed, projected, o, heads, read_weights, weight] = self.split(all);
        let (h, width, inner, keys) = (
            self.dims.heads,
            self.dims.value_dim,
            self.inner(),
            self.keys(),
        );
        let mut loss = self.read_loss(projected, read_weights);
        for row in 0..ROWS {
            let mixed = &mixed[row * self.mixed_row()..][..self.mixed_row()];
            let scale = 1.0 / (self.dims.key_dim as f64).sqrt();
            let parts = [(0, scale, &self.d_q), (keys, 1.0, &self.d_k)];
            for (first, scale, d) in parts {
                let d = d[row * keys..][..keys].chunks(self.dims.key_dim);
                for (x, d) in mixed[first..][..keys].chunks(self.dims.key_dim).zip(d) {
                    let length = (x.iter().map(|x| x * x).sum::<f64>() + 1e-6).sqrt();
                    loss += dot(x, d) * scale / length;
                }
            }
            loss += dot(&mixed[2 * keys..], &self.d_v[row * inner..][..inner]);
            for head in 0..h {
                let at = row * self.stride + head;
                let g = -heads[h + head].exp()
                    * softplus(projected[at + self.columns[1]] + heads[head]);
                let beta = most * sigmoid(projected[at + self.columns[2]]);
                loss += g * self.d(row, head, 0) + beta * self.d(row, head, 1);
            }
            let o = &o[row * inner..][..inner];
            let gates: Vec<f64> = (0..inner)
                .map(|e| match gated {
                    true => silu(projected[self.gate(row, e)]),
                    false => 1.0,
                })
                .collect();
            for (head, o) in o.chunks(width).enumerate() {
                let square = o.iter().map(|o| o * o).sum::<f64>() / width as f64;
                let r = 1.0 / (square + f64::from(EPSILON)).sqrt();
                for (e, o) in o.iter().enumerate() {
                    let at = head * width + e;
                    loss += o * r * weight[e] * gates[at] * f64::from(self.d_y[row * inner + at]);
                }
            }
        }
        loss
    }

    /// Σ norm(y)·d_y of a row, by groups of `part` values.
    fn normed(&self, row: usize, y: &[f64], weight: &[f64], part: usize) -> f64 {
        let mut loss = 0.0;
        for (group, y) in y.chunks(part).enumerate() {
            let square = y.iter().map(|y| y * y).sum::<f64>() / part as f64;
            let r = 1.0 / (square + f64::from(EPSILON)).sqrt();
            for (e, y) in y.iter().enumerate() {
                let at = group * part + e;
                loss += y * r * weight[at] * f64::from(self.d_y[row * self.inner() + at]);
            }
        }
        loss
    }
}

/// The buffers that both mixers' tests have.
struct Buffers<'a> {
    layers: Layers<'a>,
    positions: wgpu::Buffer,
    mixed: wgpu::Buffer,
    projected: wgpu::Buffer,
    o: wgpu::Buffer,
    read_weights: wgpu::Buffer,
    weight: wgpu::Buffer,
    d: wgpu::Buffer,
    given: [wgpu::Buffer; 4],
    d_mixed: wgpu::Buffer,
    d_projected: wgpu::Buffer,
    d_heads: wgpu::Buffer,
    d_read_weights: wgpu::Buffer,
    d_weight: wgpu::Buffer,
    scratch: wgpu::Buffer,
    terms: wgpu::Buffer,
}

impl<'a> Buffers<'a> {
    fn new(gpu: &'a Gpu, mixer: &Mixer, before: &[Vec<f32>; 3]) -> Self {
        let mut layers = Layers::new(gpu);
        let weights = 2 * mixer.dims.heads * mixer.dims.capacity;
        Self {
            positions: layers.items(&POSITIONS),
            mixed: layers.input("mixed", &mixer.mixed),
            projected: layers.input("projected", &mixer.projected),
            o: layers.input("o", &mixer.o),
            read_weights: layers.input("read_weights", &mixer.read_weights),
            weight: layers.input("weight", &mixer.weight),
            d: layers.input("d", &mixer.d_y),
            given: [&mixer.d_q, &mixer.d_k, &mixer.d_v, &mixer.d_control]
                .map(|values| layers.input("given", values)),
            d_mixed: layers.output("d_mixed", mixer.mixed.len()),
            d_projected: layers.input("d_projected", &vec![0.0; mixer.projected.len()]),
            d_heads: layers.input("d_heads", &before[0]),
            d_read_weights: layers.input("d_read_weights", &before[1]),
            d_weight: layers.input("d_weight", &before[2]),
            scratch: scratch(gpu, 1024),
            terms: layers.output("terms", ROWS * weights.max(mixer.inner())),
            layers,
        }
    }

    fn array_gradients(&self) -> ArrayGradients<'_> {
        let [q, k, v, control] = &self.given;
        ArrayGradients { q, k, v, control }
    }

    fn read_weights(&self, mixer: &Mixer) {
        let gradient = ReadWeightsGradient {
            spec: ReadWeightsGradientSpec {
                dims: mixer.dims,
                stride: mixer.stride,
                column: mixer.columns[3],
                fenwick: mixer.fenwick,
            },
            read_weights: &self.read_weights,
            scratch: &self.scratch,
            terms: &self.terms,
        };
        self.layers.run(block_on(gradient.prepare(
            self.layers.gpu,
            rows(BATCH, TOKENS),
            [&self.positions, &self.projected, &self.given[3]],
            &self.d_projected,
            &self.d_read_weights,
        )));
    }

    fn gradients(&self) -> Vec<Vec<f32>> {
        let buffers = [
            &self.d_mixed,
            &self.d_projected,
            &self.d,
            &self.d_heads,
            &self.d_read_weights,
            &self.d_weight,
        ];
        buffers.map(|buffer| self.layers.values(buffer)).to_vec()
    }
}

/// What the gradients by weights hold before.
fn before(mixer: &Mixer, heads: usize) -> [Vec<f32>; 3] {
    [heads, mixer.read_weights.len(), mixer.weight.len()].map(|len| numbers(20, len))
}

fn expected(found: [Vec<f64>; 6], before: &[Vec<f32>; 3]) -> Vec<(&'static str, Vec<f64>)> {
    let [mixed, projected, o, mut heads, read_weights, weight] = found;
    heads.truncate(before[0].len());
    vec![
        ("d_mixed", mixed),
        ("d_projected", projected),
        ("d_o", o),
        ("d_heads", sum(&heads, &before[0])),
        ("d_read_weights", sum(&read_weights, &before[1])),
        ("d_weight", sum(&weight, &before[2])),
    ]
}

#[test]
fn mamba2_around_the_operator() {
    for (sizes, norm_groups, limit, fenwick) in [
        ([6, 3, 7, 5, 4], 3, [0.0, f32::INFINITY], false),
        ([4, 1, 3, 40, 5], 1, [0.5, 1.0], true),
        ([1, 1, 1, 1, 1], 1, [0.0, f32::INFINITY], false),
    ] {
        let mixer = Mixer::new(sizes, fenwick, sizes[0] * sizes[3]);
        mamba2(&mixer, norm_groups, limit);
    }
}

/// A head whose decay is an ordinary number of factors that are not.
#[test]
fn kind_39_gradients_of_a_decay_far_out() {
    let limit = [0.0, f32::INFINITY];
    mamba2(&Mixer::new([3, 3, 7, 5, 4], false, 15).far(), 3, limit);
    delta(&Mixer::new([3, 3, 7, 5, 4], false, 5).far(), true, 1.0);
}

#[test]
fn kind_40_gradients_of_the_mixers_norms_at_every_magnitude() {
    let limit = [0.0, f32::INFINITY];
    for size in [1e20, 1e34] {
        let mixer = Mixer::new([6, 3, 7, 5, 4], false, 30).scaled(size, 1.0);
        mamba2(&mixer, 3, limit);
        let mixer = Mixer::new([6, 3, 7, 5, 4], false, 5).scaled(size, size);
        delta(&mixer, true, 1.0);
    }
}

fn mamba2(mixer: &Mixer, norm_groups: usize, limit: [f32; 2]) {
    let wide_limit = limit.map(f64::from);
    let found = mixer.gradients(|all| mixer.mamba2(all, norm_groups, wide_limit));
    let before = before(mixer, 3 * mixer.dims.heads);
    let run = |gpu: &Gpu| {
        let b = Buffers::new(gpu, mixer, &before);
        let mut more = Layers::new(gpu);
        let heads = more.input("heads", &mixer.device_heads());
        let output = Mamba2OutputGradient {
            spec: Mamba2OutputSpec {
                dims: mixer.dims,
                stride: mixer.stride,
                z: mixer.columns[0],
                norm_groups,
                epsilon: EPSILON,
                float: Float::F32,
            },
            heads: &heads,
            weight: &b.weight,
            scratch: &b.scratch,
            terms: &b.terms,
        };
        let rows = rows(BATCH, TOKENS);
        let kept = [&b.o, &b.mixed, &b.projected];
        let made = [&b.d, &b.d_projected];
        b.layers
            .run(block_on(output.prepare(gpu, rows, kept, made, &b.d_weight)));
        b.read_weights(mixer);
        let arrays = Mamba2ArraysGradient {
            spec: Mamba2ArraysSpec {
                dims: mixer.dims,
                stride: mixer.stride,
                dt: mixer.columns[1],
                lambda: mixer.lambda(),
                dt_limit: limit,
                float: Float::F32,
            },
            heads: &heads,
            scratch: &b.scratch,
        };
        b.layers.run(block_on(arrays.prepare(
            gpu,
            rows,
            [&b.mixed, &b.projected, &b.d],
            b.array_gradients(),
            [&b.d_mixed, &b.d_projected],
            &b.d_heads,
        )));
        b.gradients()
    };
    let expected = expected(found, &before);
    compare_within(
        &format!("{:?}", mixer.dims),
        run,
        &expected,
        mixer.tolerance(),
    );
}

#[test]
fn gated_delta_net_around_the_operator() {
    for (sizes, gated, most, fenwick) in [
        ([6, 3, 7, 5, 4], true, 1.0, false),
        ([4, 2, 40, 33, 5], false, 2.0, true),
        ([1, 1, 1, 1, 1], true, 1.0, false),
    ] {
        delta(&Mixer::new(sizes, fenwick, sizes[3]), gated, most);
    }
}

fn delta(mixer: &Mixer, gated: bool, most: f64) {
    let found = mixer.gradients(|all| mixer.delta(all, gated, most));
    let before = before(mixer, 2 * mixer.dims.heads);
    let run = |gpu: &Gpu| {
        let b = Buffers::new(gpu, mixer, &before);
        let mut more = Layers::new(gpu);
        let heads = more.input("heads", &mixer.device_heads());
        let output = DeltaOutputGradient {
            spec: DeltaOutputSpec {
                dims: mixer.dims,
                stride: mixer.stride,
                gate: gated.then_some(mixer.columns[0]),
                epsilon: EPSILON,
                float: Float::F32,
            },
            weight: &b.weight,
            scratch: &b.scratch,
            terms: &b.terms,
        };
        let rows = rows(BATCH, TOKENS);
        let (kept, made) = ([&b.o, &b.projected], [&b.d, &b.d_projected]);
        b.layers
            .run(block_on(output.prepare(gpu, rows, kept, made, &b.d_weight)));
        b.read_weights(mixer);
        let arrays = DeltaArraysGradient {
            spec: DeltaArraysSpec {
                dims: mixer.dims,
                stride: mixer.stride,
                a: mixer.columns[1],
                b: mixer.columns[2],
                lambda: mixer.lambda(),
                most: most as f32,
                float: Float::F32,
            },
            heads: &heads,
            scratch: &b.scratch,
        };
        b.layers.run(block_on(arrays.prepare(
            gpu,
            rows,
            [&b.mixed, &b.projected],
            b.array_gradients(),
            [&b.d_mixed, &b.d_projected],
            &b.d_heads,
        )));
        b.gradients()
    };
    let expected = expected(found, &before);
    compare_within(
        &format!("{:?}", mixer.dims),
        run,
        &expected,
        mixer.tolerance(),
    );
}
