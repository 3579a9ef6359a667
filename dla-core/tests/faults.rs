//! Faults that users met in libraries like this one, each kind as a test at the level where they would meet it.

mod common;

use common::generate::{self, Random};
use common::{Case, assert_close, slice};
use dla_core::dla::{chunk, recurrent};
use dla_core::session::{seal, unseal};
use dla_core::trace::judge;
use dla_core::{Backbone, Cache, Config, Dims, MergeCost, Output, Real, Session};

const CHUNK: usize = 64;
const BACKBONES: [Backbone; 3] = [Backbone::Plain, Backbone::Decay, Backbone::Delta];

/// A case of `tokens` tokens with four heads in two groups, five states.
fn case(backbone: Backbone, batch: usize, tokens: usize) -> Case<f64> {
    let dims = Dims {
        batch,
        tokens,
        heads: 4,
        groups: 2,
        key_dim: 6,
        value_dim: 5,
        capacity: 5,
    };
    generate::case(dims, Config::new(backbone), 0.9, 11)
}

fn forward<R: Real>(case: &Case<R>, cache: Option<&Cache<R>>) -> Output<R> {
    recurrent::forward(&case.dims, &case.config, &case.inputs(), cache).expect("a valid case")
}

fn chunked<R: Real>(case: &Case<R>, cache: Option<&Cache<R>>) -> Output<R> {
    chunk::forward(&case.dims, &case.config, &case.inputs(), cache, CHUNK).expect("a valid case")
}

/// Runs the pieces of the given lengths one after the other; what is left is the last piece.
fn in_pieces(
    case: &Case<f64>,
    lengths: &[usize],
    run: impl Fn(&Case<f64>, Option<&Cache<f64>>) -> Output<f64>,
) -> (Vec<f64>, Cache<f64>) {
    assert_eq!(
        case.dims.batch, 1,
        "outputs of pieces are put one after the other"
    );
    let mut cache = Cache::new(&case.dims);
    let mut o = Vec::new();
    let mut start = 0;
    for length in lengths.iter().copied().chain([case.dims.tokens]) {
        let end = (start + length).min(case.dims.tokens);
        let output = run(&case.piece(start..end), Some(&cache));
        o.extend(output.o);
        cache = output.cache;
        start = end;
    }
    (o, cache)
}

#[test]
fn kind_01_split_equals_whole() {
    let splits: [&[usize]; 6] = [
        &[1],
        &[CHUNK - 1],
        &[CHUNK, 0, CHUNK],
        &[CHUNK + 1],
        &[0, 0, 17, 0],
        &[1, 1, 1, CHUNK - 1, CHUNK + 1],
    ];
    for backbone in BACKBONES {
        let case = case(backbone, 1, 200);
        let whole = forward(&case, None);
        for split in splits {
            let (o, cache) = in_pieces(&case, split, forward);
            assert_eq!(
                (&o, &cache),
                (&whole.o, &whole.cache),
                "{backbone} {split:?}"
            );
            let (o, cache) = in_pieces(&case, split, chunked);
            assert_close(&format!("{backbone} {split:?}"), &o, &whole.o, 1e-9);
            assert_eq!(cache.n, whole.cache.n);
        }
    }
}

#[test]
fn kind_02_partial_chunk_then_steps() {
    for backbone in BACKBONES {
        let case = case(backbone, 1, 140);
        let whole = forward(&case, None);
        for prefill in [CHUNK - 1, CHUNK + 1, 100] {
            let mut pieces = vec![prefill];
            pieces.resize(1 + case.dims.tokens - prefill, 1);
            let (o, cache) = in_pieces(&case, &pieces, chunked);
            assert_close(&format!("{backbone} after {prefill}"), &o, &whole.o, 1e-9);
            assert_close("states", &cache.states, &whole.cache.states, 1e-9);
        }
    }
}

#[test]
fn kind_03_lengths_around_the_chunk() {
    for backbone in BACKBONES {
        for tokens in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 100, 1000] {
            let case = case(backbone, 1, tokens);
            let got = chunked(&case, None);
            let decisions = &got.trace.decisions;
            let judged = judge(&case.dims, &case.config, &case.inputs(), None, decisions);
            let judged = judged.expect("decisions of a run");
            assert_eq!(judged.fault, None);
            let what = format!("{backbone}, {tokens} tokens");
            assert_close(&what, &got.o, &judged.output.o, 1e-8);
            assert_close(&what, &got.cache.states, &judged.output.cache.states, 1e-8);
        }
    }
}

#[test]
fn kind_04_unequal_lengths_equal_one_at_a_time() {
    for backbone in BACKBONES {
        let mut case = case(backbone, 3, 130);
        case.lengths = Some(vec![130, 0, 65]);
        for run in [forward::<f64>, chunked::<f64>] {
            let whole = run(&case, None);
            let rows = case.dims.tokens * case.dims.heads * case.dims.value_dim;
            for b in 0..3 {
                let alone = run(&case.item(b), None);
                let (live, padding) = whole.o[b * rows..(b + 1) * rows].split_at(alone.o.len());
                assert_eq!(live, alone.o, "{backbone}, item {b}");
                assert!(padding.iter().all(|&x| x == 0.0));
            }
        }
    }
}

/// What stands behind a shorter item's end, were it NaN, must not be read.
#[test]
fn kind_04_padding_is_not_read() {
    let mut case = case(Backbone::Delta, 2, 70);
    case.lengths = Some(vec![70, 30]);
    let clean = [forward(&case, None), chunked(&case, None)];
    let values = case.v.len() / 2;
    let live = 30 * case.dims.heads * case.dims.value_dim;
    case.v[values + live..].fill(f64::NAN);
    assert_eq!(clean, [forward(&case, None), chunked(&case, None)]);
}

#[test]
fn kind_05_restore_gives_the_same_output() {
    let case = case(Backbone::Delta, 1, 90).cast::<f32>();
    let whole = forward(&case, None);
    let mut session = Session::new(case.dims, case.config).expect("valid sizes");
    session
        .feed(50, &case.piece(0..50).inputs())
        .expect("a valid piece");
    let bytes = session.save();
    for _ in 0..2 {
        let mut restored = Session::<f32>::load(&bytes).expect("saved bytes");
        let rest = restored
            .feed(40, &case.piece(50..90).inputs())
            .expect("a valid piece");
        assert_eq!(rest.o, slice(&case.dims, &whole.o, 50..90));
        assert_eq!(restored.cache(), &whole.cache);
    }
}

/// Not even states that are NaN survive a reset.
#[test]
fn kind_06_nothing_leaks_into_the_next_sequence() {
    let case = case(Backbone::Decay, 1, 40);
    let mut poisoned = case.clone();
    poisoned.v.fill(f64::NAN);
    let mut session = Session::new(case.dims, case.config).expect("valid sizes");
    session
        .feed(40, &poisoned.inputs())
        .expect("NaN is let through");
    session.reset();
    let output = session.feed(40, &case.inputs()).expect("a valid piece");
    assert_eq!(output, forward(&case, None));
}

/// Single-precision states do not drift away over a long sequence.
#[test]
fn kind_07_long_sequences_do_not_collapse() {
    for backbone in [Backbone::Decay, Backbone::Delta] {
        let single = case(backbone, 1, 4000).cast::<f32>();
        let got = forward(&single, None);
        let double = case(backbone, 1, 4000);
        let decisions = &got.trace.decisions;
        let judged = judge(
            &double.dims,
            &double.config,
            &double.inputs(),
            None,
            decisions,
        )
        .expect("decisions of a run");
        let last = 3000..4000;
        let got = slice(&double.dims, &got.o, last.clone());
        assert_close(
            "o",
            &got,
            &slice(&double.dims, &judged.output.o, last),
            1e-4,
        );
    }
}

#[test]
fn kind_09_strong_decay_does_not_overflow() {
    for backbone in [Backbone::Decay, Backbone::Delta] {
        let mut case = case(backbone, 1, 1000);
        case.g = Some(vec![-12.0; case.dims.token_heads()]);
        let single = case.cast::<f32>();
        for got in [forward(&single, None), chunked(&single, None)] {
            assert!(got.o.iter().all(|x| x.is_finite()), "{backbone}");
            assert_eq!(got.trace.non_finite, 0, "{backbone}");
            let decisions = &got.trace.decisions;
            let judged = judge(&case.dims, &case.config, &case.inputs(), None, decisions)
                .expect("decisions of a run");
            assert_close(&backbone.to_string(), &got.o, &judged.output.o, 1e-4);
        }
    }
}

/// What decays to nothing becomes 0 in single precision rather than subnormal, which is slow; outputs do not change.
#[test]
fn kind_09_decayed_states_are_flushed() {
    for backbone in [Backbone::Decay, Backbone::Delta] {
        let mut case = case(backbone, 1, 300);
        case.g = Some(vec![-0.9; case.dims.token_heads()]);
        let single = case.cast::<f32>();
        for got in [forward(&single, None), chunked(&single, None)] {
            let states = &got.cache.states;
            assert!(!states.iter().any(|x| x.is_subnormal()), "{backbone}");
            let decisions = &got.trace.decisions;
            let judged = judge(&case.dims, &case.config, &case.inputs(), None, decisions)
                .expect("decisions of a run");
            let faint = |x: &f64| *x != 0.0 && x.abs() < 1e-38;
            let expected = &judged.output;
            assert!(expected.cache.states.iter().any(faint), "{backbone}");
            assert_close("o", &got.o, &expected.o, 1e-4);
            assert_close("states", states, &expected.cache.states, 1e-4);
        }
    }
}

#[test]
fn kind_10_rollback_of_the_last_tokens() {
    let case = case(Backbone::Delta, 1, 60);
    let mut session = Session::new(case.dims, case.config).expect("valid sizes");
    session
        .feed(40, &case.piece(0..40).inputs())
        .expect("a valid piece");
    let snapshot = session.snapshot();
    let first = session
        .feed(20, &case.piece(40..60).inputs())
        .expect("a valid piece");
    session.rollback(&snapshot);
    session
        .feed(7, &case.piece(50..57).inputs())
        .expect("a valid piece");
    session.rollback(&snapshot);
    let again = session
        .feed(20, &case.piece(40..60).inputs())
        .expect("a valid piece");
    assert_eq!(again, first);
}

/// A value that is not finite is no boundary, is counted, and reaches the output; both forms agree on where.
#[test]
fn kind_33_non_finite_values_are_not_hidden() {
    for backbone in BACKBONES {
        for (array, value) in [
            ("q", f64::NAN),
            ("k", f64::INFINITY),
            ("v", f64::NAN),
            ("v", f64::INFINITY),
        ] {
            let mut case = case(backbone, 1, 100);
            let token = 70;
            let keys = case.dims.groups * case.dims.key_dim;
            match array {
                "q" => case.q[token * keys] = value,
                "k" => case.k[token * keys] = value,
                _ => case.v[token * case.dims.heads * case.dims.value_dim] = value,
            }
            let what = format!("{backbone}, {value} in {array}");
            let (expected, got) = (forward(&case, None), chunked(&case, None));
            let finite = |output: &Output<f64>| -> Vec<bool> {
                output.o.iter().map(|x| x.is_finite()).collect()
            };
            let row = case.dims.heads * case.dims.value_dim;
            assert!(
                finite(&expected)[..token * row]
                    .iter()
                    .all(|&finite| finite),
                "{what}"
            );
            assert!(!finite(&expected)[token * row], "{what}");
            assert_eq!(finite(&got), finite(&expected), "{what}");
            assert_eq!(got.trace.decisions, expected.trace.decisions, "{what}");
            assert_eq!(got.trace.non_finite, expected.trace.non_finite, "{what}");
            if array != "q" {
                assert!(expected.trace.non_finite > 0, "{what}");
                let at = case.dims.token_head(0, token, 0);
                assert_eq!(expected.trace.decisions.boundary[at], 0, "{what}");
            }
        }
    }
}

/// Saved sessions that were cut, lengthened or altered give errors or other sessions, never a panic.
#[test]
fn kind_36_hostile_session_bytes() {
    let mut case = case(Backbone::Decay, 1, 20);
    case.config.merge = MergeCost::Ward;
    let mut session = Session::new(case.dims, case.config).expect("valid sizes");
    session.feed(20, &case.inputs()).expect("a valid piece");
    let bytes = session.save();
    for length in 0..bytes.len() {
        let error = Session::<f64>::load(&bytes[..length]).expect_err("cut bytes");
        assert!(error.is_file(), "{error}");
    }
    assert!(Session::<f64>::load(&[&bytes[..], &[0]].concat()).is_err());
    assert!(Session::<f32>::load(&bytes).is_err(), "another precision");
    // Whoever writes such a file can write its checksum too: behind it nothing is trusted either.
    let body = unseal("session", &bytes).expect("saved bytes").to_vec();
    let counts = body.len() - 8 * (session.cache().info.len() + session.cache().states.len());
    let mut gap = body.clone();
    gap[counts - 4 * session.cache().n.len()..][..4].fill(0); // the oldest state is not live
    let error = Session::<f64>::load(&seal(gap)).expect_err("states that no run leaves");
    assert_eq!(error.argument(), "states");
    let mut random = Random(5);
    for _ in 0..20_000 {
        let mut altered = body.clone();
        for _ in 0..1 + (random.uniform() * 3.0) as usize {
            let at = (random.uniform() * 100.0) as usize;
            altered[at] = (random.uniform() * 256.0) as u8;
        }
        if let Err(error) = Session::<f64>::load(&seal(altered)) {
            assert!(error.is_file(), "{error}");
        }
    }
}

/// A byte that changed on a disk or on the way gives an error, never another text.
#[test]
fn kind_47_changed_session_bytes_are_refused() {
    let case = case(Backbone::Delta, 1, 20);
    let mut session = Session::new(case.dims, case.config).expect("valid sizes");
    session.feed(20, &case.inputs()).expect("a valid piece");
    let bytes = session.save();
    assert_eq!(Session::<f64>::load(&bytes).as_ref(), Ok(&session));
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        let error = Session::<f64>::load(&changed).expect_err("a flipped bit");
        assert!(error.is_file(), "byte {at}: {error}");
        let argument = ["magic", "version", "checksum"][(at / 4).min(2)];
        assert_eq!(error.argument(), argument, "byte {at}: {error}");
    }
    let mut early = unseal("session", &bytes).expect("saved bytes").to_vec();
    early[4..8].copy_from_slice(&1u32.to_le_bytes());
    let error = Session::<f64>::load(&early).expect_err("a version without checksum");
    assert!(
        error
            .to_string()
            .contains("without a checksum: feed the text again"),
        "{error}"
    );
}
