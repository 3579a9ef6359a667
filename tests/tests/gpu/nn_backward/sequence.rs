//! What looks along a sequence or at its ids: convolution, attention, embedding, loss.

use dla_core::nn;
use dla_core::nn::activation::silu_slope;
use dla_tests::layers::{Layers, numbers, rows};
use dla_wgpu::nn::backward::{
    Attention, ConvGradient, ConvGradientSpec, CrossEntropy, CrossEntropySpec, EmbeddingGradient,
    Head, embedding_order,
};
use dla_wgpu::nn::{AttentionSpec, ConvSpec, buffer};
use pollster::block_on;

use super::{bits, compare, held, matrix, scratch, sum, wide};

#[test]
fn a_convolution_backwards() {
    for (channels, width, bias) in [(1, 1, true), (40, 4, true), (65, 8, false), (33, 2, false)] {
        for (tokens, lengths) in [
            (1, vec![1, 0]),
            (70, vec![70, 3, 69]),
            (300, vec![300, 129]),
        ] {
            conv([channels, width, tokens], bias, &lengths);
        }
    }
}

fn conv([channels, width, tokens]: [usize; 3], bias: bool, lengths: &[u32]) {
    let (stride, first, count) = (channels + 5, 3, lengths.len() * tokens);
    let projected = numbers(1, count * stride);
    let d = numbers(2, count * channels);
    let (weight, biases) = (numbers(3, channels * width), numbers(4, channels));
    let spec = ConvSpec {
        stride,
        first,
        channels,
        width,
    };
    let packed = spec.pack(&weight, bias.then_some(&biases)).expect("sizes");
    let before = numbers(5, packed.len());
    let layer = nn::CausalConv::new(channels, wide(&weight), bias.then(|| wide(&biases)));
    let mut d_x = vec![0.0; count * channels];
    let (mut d_weight, mut d_bias) = (vec![0.0; channels * width], vec![0.0; channels]);
    for (b, &length) in lengths.iter().enumerate() {
        let (from, to) = (b * tokens, b * tokens + length as usize);
        let inputs = projected[from * stride..to * stride].chunks(stride);
        let x: Vec<f32> = inputs
            .flat_map(|row| row[first..first + channels].to_vec())
            .collect();
        let y = layer.forward(&wide(&x), &mut layer.state());
        let d = wide(&d[from * channels..to * channels]);
        let slopes: Vec<f64> = d.iter().zip(&y).map(|(d, &y)| d * silu_slope(y)).collect();
        let got = layer.backward(&wide(&x), &slopes);
        d_x[from * channels..to * channels].copy_from_slice(&got.x);
        d_weight
            .iter_mut()
            .zip(&got.weight)
            .for_each(|(a, b)| *a += b);
        let biases = got.bias.iter().flatten();
        d_bias.iter_mut().zip(biases).for_each(|(a, b)| *a += b);
    }
    let gradients = d_weight.chunks(width).zip(&d_bias);
    let expected: Vec<f64> = gradients
        .flat_map(|(weights, &bias)| [weights, &[bias]].concat())
        .collect();
    compare(
        &format!("{channels} channels, {width} wide, {tokens} tokens"),
        |gpu| {
            let mut layers = Layers::new(gpu);
            let projected = layers.input("projected", &projected);
            let weight = layers.input("weight", &packed);
            let d = layers.input("d", &d);
            let d_weight = layers.input("d_weight", &before);
            let d_projected = layers.output("d_projected", count * stride);
            let scratch = scratch(gpu, 2 * packed.len());
            let items = layers.items(lengths);
            let gradient = ConvGradient {
                spec: ConvGradientSpec { conv: spec, bias },
                weight: &weight,
                scratch: &scratch,
            };
            layers.run(block_on(gradient.prepare(
                gpu,
                rows(lengths.len(), tokens),
                [&items, &projected],
                [&d, &d_projected],
                &d_weight,
            )));
            let written = layers.values(&d_projected);
            let columns = written.chunks(stride).flat_map(|row| {
                let outside = row[..first].iter().chain(&row[first + channels..]);
                assert!(outside.into_iter().all(|x| x.is_nan()), "columns of others");
                row[first..first + channels].to_vec()
            });
            vec![columns.collect(), layers.values(&d_weight)]
        },
        &[("d_x", d_x.clone()), ("d_weight", sum(&expected, &before))],
    );
}

#[test]
fn attention_forwards_and_backwards() {
    for (sizes, lengths) in [
        ([1, 1, 1], vec![1, 0]),
        ([3, 5, 33], vec![33, 17, 0]),
        ([2, 33, 64], vec![64, 63]),
        ([1, 128, 100], vec![97]),
    ] {
        attention(sizes, &lengths);
    }
}

fn attention([heads, width, tokens]: [usize; 3], lengths: &[u32]) {
    let (wide_row, count) = (heads * width, lengths.len() * tokens);
    let qkv = numbers(1, count * 3 * wide_row);
    let d_o = numbers(2, count * wide_row);
    let layer = nn::Attention { heads, width };
    let mut o = vec![0.0; count * wide_row];
    let mut d_qkv = vec![0.0; count * 3 * wide_row];
    for (b, &length) in lengths.iter().enumerate() {
        let (from, to) = (b * tokens, b * tokens + length as usize);
        let part = |part: usize| -> Vec<f64> {
            let tokens = from..to;
            let at = |t: usize| (3 * t + part) * wide_row;
            tokens
                .flat_map(|t| wide(&qkv[at(t)..][..wide_row]))
                .collect()
        };
        let (q, k, v) = (part(0), part(1), part(2));
        o[from * wide_row..to * wide_row].copy_from_slice(&layer.forward(&q, &k, &v));
        let d = layer.backward(&q, &k, &v, &wide(&d_o[from * wide_row..to * wide_row]));
        for (part, d) in [d.q, d.k, d.v].iter().enumerate() {
            for (t, d) in d.chunks(wide_row).enumerate() {
                d_qkv[(3 * (from + t) + part) * wide_row..][..wide_row].copy_from_slice(d);
            }
        }
    }
    compare(
        &format!("{heads} heads of {width}, {tokens} tokens"),
        |gpu| {
            let mut layers = Layers::new(gpu);
            let (qkv, d_o) = (layers.input("qkv", &qkv), layers.input("d_o", &d_o));
            let o = layers.output("o", count * wide_row);
            let spread = layers.output("spread", count * heads);
            let dots = layers.output("dots", count * heads);
            let d_qkv = layers.output("d_qkv", count * 3 * wide_row);
            let lengths_buffer = layers.items(lengths);
            let rows = rows(lengths.len(), tokens);
            let attention = Attention {
                spec: AttentionSpec { heads, width },
                lengths: &lengths_buffer,
                qkv: &qkv,
                o: &o,
                spread: &spread,
            };
            layers.run(block_on(attention.prepare(gpu, rows)));
            let made = [&dots, &d_qkv];
            layers.run(block_on(attention.prepare_backward(gpu, rows, &d_o, made)));
            vec![layers.values(&o), layers.values(&d_qkv)]
        },
        &[("o", o.clone()), ("d_qkv", d_qkv.clone())],
    );
}

#[test]
fn an_embedding_backwards() {
    for (vocabulary, width, tokens, bytes) in [
        (7, 1, 5, 1 << 20),
        (150, 36, 50, 4096),
        (3, 300, 200, 1 << 20),
        (65_000, 3, 40, 1 << 20),
    ] {
        let lengths = [tokens as u32, 0, tokens as u32 - 2];
        let count = 3 * tokens;
        let mut ids: Vec<u32> = (0..count).map(|i| (i * i % vocabulary) as u32).collect();
        ids[1] = vocabulary as u32 - 1;
        let (d_x, before) = (numbers(1, count * width), numbers(2, vocabulary * width));
        let real = |row: &usize| row % tokens < lengths[row / tokens] as usize;
        let known: Vec<usize> = (0..count).filter(real).collect();
        let known_ids: Vec<u32> = known.iter().map(|&row| ids[row]).collect();
        let known_x = known.iter().flat_map(|row| &d_x[row * width..][..width]);
        let known_x: Vec<f64> = known_x.map(|&x| x.into()).collect();
        let table = nn::Embedding::new(width, vec![0.0; vocabulary * width]);
        let expected = sum(&table.backward(&known_ids, &known_x), &before);
        // An id behind a length may be anything.
        ids[tokens] = u32::MAX;
        let order = embedding_order(&ids, tokens, &lengths, vocabulary).expect("known ids");
        compare(
            &format!("{vocabulary} x {width}"),
            |gpu| {
                let d_table = matrix(gpu, [vocabulary, width], &before, bytes);
                let mut layers = Layers::new(gpu);
                let (ids, order) = (layers.words("ids", &ids), layers.words("order", &order));
                let d_x = layers.input("d_x", &d_x);
                let gradient = EmbeddingGradient { d_table: &d_table };
                layers.run(block_on(gradient.prepare(gpu, count, [&ids, &order], &d_x)));
                layers.values(&d_x);
                vec![held(gpu, &d_table)]
            },
            &[("d_table", expected)],
        );
    }
}

#[test]
fn an_order_refuses_what_it_cannot_place() {
    let error = embedding_order(&[0, 7], 2, &[2], 7).expect_err("refused");
    assert!(error.to_string().contains("7 in row 1"), "{error}");
    assert!(embedding_order(&[0, 7], 2, &[1], 7).is_ok());
    assert!(embedding_order(&[0], 2, &[1], 7).is_err());
}

#[test]
fn a_head_and_its_loss_block_by_block() {
    for (vocabulary, hidden, count, values) in [
        (5, 3, 7, 1 << 20),
        (300, 20, 150, 64 * 300),
        (1000, 36, 200, 128 * 1000),
    ] {
        let (weights, x) = (numbers(1, vocabulary * hidden), numbers(2, count * hidden));
        let before = numbers(3, vocabulary * hidden);
        let mut targets: Vec<u32> = (0..count).map(|i| (i * 7 % vocabulary) as u32).collect();
        targets[1] = u32::MAX;
        targets[count - 1] = u32::MAX;
        let map = nn::Linear::new(hidden, wide(&weights), None);
        let logits = map.forward(&wide(&x));
        let loss = nn::loss::cross_entropy(&logits, vocabulary, &targets).expect("targets");
        let expected = map.backward(&wide(&x), &loss.d_logits);
        let mut measures = Vec::new();
        for (logits, &target) in logits.chunks(vocabulary).zip(&targets) {
            let alone = nn::loss::cross_entropy(logits, vocabulary, &[target]);
            let largest = (0..vocabulary).max_by(|&a, &b| logits[a].total_cmp(&logits[b]));
            let hit = f64::from(u8::from(largest == Some(target as usize)));
            measures.extend([alone.map_or(0.0, |loss| loss.value), hit]);
        }
        let share = 1.0 / loss.counted as f32;
        compare(
            &format!("{count} x {vocabulary}"),
            |gpu| {
                let sizes = [vocabulary, hidden];
                let weight = matrix(gpu, sizes, &weights, 1 << 20);
                let d_weight = matrix(gpu, sizes, &before, 1 << 20);
                let mut layers = Layers::new(gpu);
                let (x, targets) = (layers.input("x", &x), layers.words("targets", &targets));
                let share = layers.input("share", &[share]);
                let d_x = layers.output("d_x", count * hidden);
                let measures = layers.output("measures", 2 * count);
                let scratch = scratch(gpu, 1 << 16);
                let head = block_on(Head::within(gpu, count, sizes, values)).expect("room");
                let prepared = head.prepare(
                    gpu,
                    count,
                    [&weight, &d_weight],
                    [&targets, &share, &measures, &scratch],
                    [&x, &d_x],
                );
                let untouched = layers.read(&d_x);
                let mut work = Vec::new();
                for block in block_on(prepared).expect("sizes that fit") {
                    layers.run(Ok(block.loss.clone()));
                    work.extend(block.loss.into_iter().chain(block.gradients));
                }
                let alone = layers.read(&measures);
                assert_eq!(layers.read(&d_x), untouched, "the loss alone");
                assert_eq!(bits(&held(gpu, &d_weight)), bits(&before));
                layers.run(Ok(work));
                assert_eq!(layers.read(&measures), alone);
                let gradients = [layers.values(&d_x), held(gpu, &d_weight)];
                [&gradients[..], &[layers.values(&measures)]].concat()
            },
            &[
                ("d_x", expected.x.clone()),
                ("d_weight", sum(&expected.weight, &before)),
                ("measures", measures.clone()),
            ],
        );
    }
}

#[test]
fn kind_33_a_logit_that_is_not_a_number_reaches_the_loss() {
    let Some(gpu) = dla_tests::gpu::gpu() else {
        return;
    };
    let mut layers = Layers::new(gpu);
    let logits = layers.input("logits", &[1.0, f32::NAN, 2.0, 3.0, 1.0, 3.0]);
    let targets = layers.words("targets", &[0, 0]);
    let share = layers.input("share", &[0.5]);
    let measures = layers.output("measures", 4);
    let loss = CrossEntropy {
        spec: CrossEntropySpec { vocabulary: 3 },
        rows: [2, 0],
    };
    let made = [&logits, &measures];
    layers.run(block_on(loss.prepare(gpu, [&targets, &share], made)));
    let measures = layers.values(&measures);
    assert!(measures[0].is_nan(), "{measures:?}");
    assert!(
        measures[2].is_finite() && measures[3] == 1.0,
        "{measures:?}"
    );
    let d = layers.values(&logits);
    assert!(d[..3].iter().all(|d| d.is_nan()), "{d:?}");
    assert_eq!(bits(&d[3..]).len(), 3);
    assert!(d[3..].iter().all(|d| d.is_finite()), "{d:?}");
    let small = block_on(buffer(gpu, "small", 4)).expect("a buffer");
    let later = CrossEntropy {
        rows: [2, 3],
        ..loss
    };
    let refused = block_on(later.prepare(gpu, [&small, &share], made)).expect_err("refused");
    assert_eq!(refused.argument(), "targets", "{refused}");
}
