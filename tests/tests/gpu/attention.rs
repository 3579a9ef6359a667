//! Attention over kept keys and values, against its twin in dla-core.

use dla_core::nn;
use dla_tests::gpu::{gpu, gpus};
use dla_tests::layers::{Layers, numbers, rows};
use dla_tests::tolerance::{assert_near, wide};
use dla_wgpu::Gpu;
use dla_wgpu::nn::{AttentionScratch, AttentionSpec, CachedAttention, Rows};
use pollster::block_on;

const TOLERANCE: f64 = 1e-5;

/// Attention with what it keeps on the device.
struct Kept<'a> {
    layers: Layers<'a>,
    spec: AttentionSpec,
    room: usize,
    keys_values: wgpu::Buffer,
}

/// Queries, keys and values of one sequence, `[tokens, 3, H, D]`.
struct Sequence {
    spec: AttentionSpec,
    qkv: Vec<f32>,
}

impl<'a> Kept<'a> {
    /// Room for `room` tokens of each of `batch` items, with NaN in it.
    fn new(gpu: &'a Gpu, spec: AttentionSpec, batch: usize, room: usize) -> Self {
        let mut layers = Layers::new(gpu);
        let keys_values = vec![f32::NAN; batch * room * spec.kept()];
        let keys_values = layers.input("keys_values", &keys_values);
        Self {
            layers,
            spec,
            room,
            keys_values,
        }
    }

    /// The output for `qkv` of `rows`.
    fn run(&mut self, rows: Rows, positions: &[u32], lengths: &[u32], qkv: &[f32]) -> Vec<f32> {
        let gpu = self.layers.gpu;
        let (positions, lengths) = (self.layers.items(positions), self.layers.items(lengths));
        let qkv = self.layers.input("qkv", qkv);
        let count = rows.batch * rows.tokens;
        let o = self.layers.output("o", count * self.spec.kept() / 2);
        let scratch = block_on(AttentionScratch::new(gpu, self.spec, rows, self.room));
        let attention = CachedAttention {
            spec: self.spec,
            room: self.room,
            lengths: &lengths,
            positions: &positions,
            keys_values: &self.keys_values,
        };
        let scratch = scratch.unwrap_or_else(|error| panic!("{error}"));
        self.layers
            .run(block_on(attention.prepare(gpu, rows, [&qkv, &o], &scratch)));
        self.layers.values(&o)
    }

    /// Sequences that go on together in `calls` of so many tokens of each; the output of each.
    fn go_on(&mut self, sequences: &[Sequence], calls: &[&[usize]]) -> Vec<Vec<f32>> {
        let (token, batch) = (self.spec.kept() / 2, sequences.len());
        let (mut at, mut all) = (vec![0; batch], vec![Vec::new(); batch]);
        for &lengths in calls {
            let tokens = *lengths.iter().max().expect("a sequence");
            let mut qkv = Vec::new();
            for ((sequence, &at), &length) in sequences.iter().zip(&at).zip(lengths) {
                let first = at * 3 * token;
                qkv.extend(&sequence.qkv[first..first + length * 3 * token]);
                qkv.resize(qkv.len() + (tokens - length) * 3 * token, 7.0);
            }
            let words = |sizes: &[usize]| sizes.iter().map(|&n| n as u32).collect::<Vec<_>>();
            let o = self.run(rows(batch, tokens), &words(&at), &words(lengths), &qkv);
            for (item, o) in o.chunks(tokens * token).enumerate() {
                let (here, behind) = o.split_at(lengths[item] * token);
                all[item].extend(here);
                assert!(behind.iter().all(|&x| x == 0.0), "0 behind a length");
                at[item] += lengths[item];
            }
        }
        all
    }
}

impl Sequence {
    fn new(seed: u64, spec: AttentionSpec, tokens: usize) -> Self {
        let qkv = numbers(seed, tokens * 3 * spec.kept() / 2);
        Self { spec, qkv }
    }

    /// All its queries, keys (1) or values (2).
    fn part(&self, part: usize) -> Vec<f64> {
        let token = self.spec.kept() / 2;
        let tokens = self.qkv.chunks(3 * token);
        tokens
            .flat_map(|qkv| wide(&qkv[part * token..][..token]))
            .collect()
    }

    /// What plain Rust reads.
    fn expected(&self) -> Vec<f64> {
        let AttentionSpec { heads, width } = self.spec;
        let layer = nn::Attention { heads, width };
        layer.forward(&self.part(0), &self.part(1), &self.part(2))
    }
}

#[track_caller]
fn held(spec: AttentionSpec, room: usize, calls: &[&[usize]]) {
    let batch = calls[0].len();
    let total = |item: usize| calls.iter().map(|lengths| lengths[item]).sum();
    let sequences = (0..batch).map(|item| Sequence::new(item as u64, spec, total(item)));
    let sequences: Vec<_> = sequences.collect();
    for gpu in gpus() {
        let got = Kept::new(gpu, spec, batch, room).go_on(&sequences, calls);
        for (item, (got, sequence)) in got.iter().zip(&sequences).enumerate() {
            let name = format!("{spec:?}, room {room}, item {item}");
            assert_near(&name, "o", got, &sequence.expected(), TOLERANCE);
        }
    }
}

#[test]
fn attention_in_pieces_equals_its_twin() {
    let spec = |heads, width| AttentionSpec { heads, width };
    held(spec(1, 1), 1, &[&[1]]);
    held(spec(3, 5), 70, &[&[40], &[1], &[1], &[28]]);
    held(spec(2, 33), 130, &[&[64], &[65], &[1]]);
    held(spec(1, 128), 100, &[&[31], &[33], &[1], &[2]]);
    held(spec(2, 64), 256, &[&[254], &[1], &[1]]);
}

#[test]
fn kind_04_attention_at_unequal_lengths_equals_its_twin() {
    let spec = AttentionSpec {
        heads: 3,
        width: 20,
    };
    held(
        spec,
        90,
        &[&[37, 0, 5], &[1, 0, 1], &[0, 33, 64], &[1, 1, 0]],
    );
}

/// Ranges of 256 keys, their borders and those behind the last key.
#[test]
fn long_attention_of_one_token_is_joined_of_ranges() {
    for (heads, width) in [(2, 1), (1, 33), (2, 128)] {
        let spec = AttentionSpec { heads, width };
        let calls: [&[usize]; 7] = [
            &[254, 511],
            &[1, 0],
            &[1, 1],
            &[1, 1],
            &[1, 1],
            &[0, 1],
            &[254, 260],
        ];
        held(spec, 1000, &calls);
    }
}

/// As many keys as a thread's loops may walk on this device, or 8,192, whole and for one token.
#[test]
fn attention_reaches_all_the_room_that_a_device_allows() {
    let (heads, width) = (1, 128);
    let spec = AttentionSpec { heads, width };
    for gpu in gpus() {
        let room = spec.most_room(gpu, 1).min(8192);
        let sequence = Sequence::new(1, spec, room);
        let [q, k, v] = [0, 1, 2].map(|part| sequence.part(part));
        for tokens in [1, 40] {
            let mut kept = Kept::new(gpu, spec, 1, room);
            let pairs = sequence.qkv.chunks(3 * width).flat_map(|qkv| &qkv[width..]);
            let pairs: Vec<f32> = pairs.copied().collect();
            kept.keys_values = kept.layers.input("keys_values", &pairs);
            let first = room - tokens;
            let (at, lengths) = ([first as u32], [tokens as u32]);
            let qkv = &sequence.qkv[first * 3 * width..];
            let got = kept.run(rows(1, tokens), &at, &lengths, qkv);
            let layer = nn::Attention { heads, width };
            let want = layer.forward(&q[first * width..], &k, &v);
            assert_near(&format!("{tokens} of {room}"), "o", &got, &want, TOLERANCE);
        }
    }
}

/// A value that is lost reaches its own token and later ones, and none before it.
#[test]
fn kind_33_attention_keeps_nan() {
    let spec = AttentionSpec { heads: 2, width: 5 };
    let token = spec.kept() / 2;
    for gpu in gpus() {
        for part in 0..3 {
            for room in [64, 600] {
                let mut sequence = Sequence::new(1, spec, 40);
                // Of the second head.
                sequence.qkv[(20 * 3 + part) * token + 5] = f32::NAN;
                for calls in [&[&[40][..]][..], &[&[20], &[1], &[1], &[18]]] {
                    let mut kept = Kept::new(gpu, spec, 1, room);
                    let got = kept.go_on(std::slice::from_ref(&sequence), calls).remove(0);
                    let want = sequence.expected();
                    for (at, (got, want)) in got.iter().zip(&want).enumerate() {
                        let same = got.is_nan() == want.is_nan();
                        assert!(same, "part {part}, value {at}: {got} for {want}");
                    }
                }
            }
        }
    }
}

#[test]
fn kind_15_attention_refuses_what_does_not_fit() {
    let Some(gpu) = gpu() else { return };
    let spec = AttentionSpec { heads: 2, width: 5 };
    let mut layers = Layers::new(gpu);
    let items = layers.items(&[1]);
    let [qkv, o, keys_values] =
        ["qkv", "o", "keys_values"].map(|name| layers.output(name, 64 * 32));
    let refused = |spec: AttentionSpec, room| {
        let attention = CachedAttention {
            spec,
            room,
            lengths: &items,
            positions: &items,
            keys_values: &keys_values,
        };
        let one = rows(1, 1);
        let scratch = block_on(AttentionScratch::new(gpu, spec, one, 64)).expect("few words");
        let prepared = block_on(attention.prepare(gpu, one, [&qkv, &o], &scratch));
        prepared.expect_err("sizes that do not fit")
    };
    let error = refused(spec, 1 << 12);
    assert!(
        error.is_input() && error.argument() == "keys_values",
        "{error}"
    );
    assert!(refused(spec, 0).is_input());
    let error = refused(spec, usize::MAX >> 8);
    assert!(
        error.is_unsupported() && error.argument() == "room",
        "{error}"
    );
    let error = refused(AttentionSpec { width: 129, ..spec }, 1);
    assert!(
        error.is_unsupported() && error.argument() == "width",
        "{error}"
    );
}
