//! What a call is asked for: logits of some tokens, decisions given.

use dla_core::model::{CHUNK, Call, DlaConfig, ModelConfig, Rows, SLICE, Slices};
use dla_core::{Config, Decisions, Model, Schedule};

use crate::support::{attention, dynamic, gated_delta, ids, mamba2, random};

fn model() -> Model {
    let plain = mamba2().0;
    let operator = Config::new(plain.backbone());
    let dla = Some(DlaConfig {
        capacity: 3,
        operator,
    });
    random(&ModelConfig { dla, ..plain })
}

#[test]
fn rows_are_rows_of_all_logits() {
    let model = model();
    let run = |logits| {
        let call = Call {
            logits,
            traces: true,
            replay: None,
        };
        let reply = model.run(&mut model.session(), &ids(20), &call);
        reply.expect("valid ids")
    };
    let all = run(Rows::All);
    assert_eq!(all.logits.len(), 20 * 23);
    assert_eq!(run(Rows::Last).logits, all.logits[19 * 23..]);
    assert!(run(Rows::None).logits.is_empty());
    assert_eq!(run(Rows::None).traces, all.traces);
    let none = model.run(&mut model.session(), &[], &Call::default());
    assert!(none.expect("no tokens").logits.is_empty());
}

#[test]
fn what_was_decided_is_given_where_it_is_asked_for() {
    let model = model();
    let reply = model.run(&mut model.session(), &ids(20), &Call::default());
    assert!(reply.expect("valid ids").traces.is_empty());
}

/// A call of many slices, the same in slices of another length, and one token behind them.
#[test]
fn kind_01_slices_change_no_bit() {
    let plain = [mamba2().0, gated_delta().0];
    let [mamba2, gated_delta] = plain.map(|plain| dynamic(plain, 4));
    for config in [mamba2, gated_delta, attention()] {
        let model = random(&config);
        let ids = ids(3 * SLICE as u32 + 1);
        let call = Call {
            logits: Rows::All,
            traces: true,
            replay: None,
        };
        let mut session = model.session();
        let whole = model.run(&mut session, &ids, &call).expect("valid ids");
        let (mut pieces, mut parts) = (Slices::new(&ids, CHUNK), model.session());
        let (mut logits, mut first) = (Vec::new(), 0);
        while let Some(piece) = pieces.take(1) {
            let reply = model.run(&mut parts, piece, &call).expect("valid ids");
            logits.extend(reply.logits);
            for (whole, part) in whole.traces.iter().zip(&reply.traces) {
                // Softmax attention has none.
                let heads = part.score.len() / piece.len();
                let at = first * heads..(first + piece.len()) * heads;
                assert_eq!(part.score, whole.score[at], "{}, {first}", config.family);
            }
            first += piece.len();
        }
        assert_eq!(logits, whole.logits, "{}", config.family);
        assert_eq!(parts, session, "{}", config.family);
        let last = model.prefill(&mut model.session(), &ids, Rows::Last);
        let row = &whole.logits[whole.logits.len() - config.vocabulary..];
        assert_eq!(last.expect("valid ids"), row, "{}", config.family);
    }
}

/// Threads take pieces of the work and no part of a sum.
#[test]
fn kind_53_no_bit_depends_on_the_number_of_threads() {
    let plain = [mamba2().0, gated_delta().0];
    let [mamba2, gated_delta] = plain.map(|plain| dynamic(plain, 4));
    for config in [mamba2, gated_delta, attention()] {
        let model = random(&config);
        let ids = ids(SLICE as u32 + 70);
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
            pool.build().expect("threads").install(|| {
                let mut session = model.session();
                let all = model.prefill(&mut session, &ids, Rows::All);
                let next = model.step(&mut session, 3).expect("a valid id");
                (all.expect("valid ids"), next, session)
            })
        };
        let one = run(1);
        for threads in [2, 5] {
            assert!(run(threads) == one, "{}, {threads}", config.family);
        }
    }
}

/// Decisions are cut with the tokens; impossible ones are refused before anything is run, wherever they are.
#[test]
fn decisions_of_a_long_call_are_followed() {
    let model = model();
    let ids = ids(2 * SLICE as u32 + 9);
    let run = |session: &mut _, replay: Option<&[Decisions]>| {
        let call = Call {
            logits: Rows::All,
            traces: true,
            replay,
        };
        model.run(session, &ids, &call)
    };
    let own = run(&mut model.session(), None).expect("valid ids");
    let mut decisions: Vec<_> = own.traces.iter().map(|t| t.decisions.clone()).collect();
    let again = run(&mut model.session(), Some(&decisions));
    assert_eq!(again.expect("its own decisions"), own);
    let last = decisions[1].boundary.len() - 1;
    decisions[1].boundary[last] = 2;
    let mut session = model.session();
    let error = run(&mut session, Some(&decisions)).expect_err("2 is no decision");
    assert!(
        error.to_string().contains(&format!("index {last}")),
        "{error}"
    );
    assert_eq!(session, model.session());
}

#[test]
fn lambda_is_the_last_tokens_however_it_came() {
    let plain = [mamba2().0, gated_delta().0];
    for (plain, schedule) in plain
        .into_iter()
        .zip([Schedule::Dynamic, Schedule::Fenwick])
    {
        let operator = Config {
            schedule,
            ..Config::new(plain.backbone())
        };
        let dla = Some(DlaConfig {
            capacity: 8,
            operator,
        });
        let model = random(&ModelConfig { dla, ..plain });
        let run = |session: &mut _, ids: &[u32]| {
            let call = Call {
                traces: true,
                ..Call::default()
            };
            let reply = model.run(session, ids, &call);
            reply.expect("valid ids")
        };
        let whole = run(&mut model.session(), &ids(21));
        let mut session = model.session();
        let before = run(&mut session, &ids(21)[..20]);
        let last = run(&mut session, &ids(21)[20..]);
        assert!(run(&mut session, &[]).lambda.iter().all(Vec::is_empty));
        let heads = model.config().dims().heads;
        for layer in 0..model.config().layers {
            assert_eq!(whole.lambda[layer].len(), heads * 8);
            let counts = &last.traces[layer].count;
            let live = |lambda: &[f32]| -> Vec<f32> {
                let heads = lambda.chunks_exact(8).zip(counts);
                heads
                    .flat_map(|(row, &n)| row[..n as usize].to_vec())
                    .collect()
            };
            let [whole, last] = [&whole, &last].map(|reply| live(&reply.lambda[layer]));
            let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-4 * (1.0 + b.abs());
            assert!(whole.iter().zip(&last).all(near), "{whole:?} for {last:?}");
            assert_ne!(last, live(&before.lambda[layer]), "an earlier token's");
        }
    }
}

#[test]
fn decisions_replayed_give_the_same_and_others_give_other_logits() {
    let model = model();
    let run = |replay: Option<&[Decisions]>| {
        let call = Call {
            logits: Rows::All,
            traces: true,
            replay,
        };
        model.run(&mut model.session(), &ids(40), &call)
    };
    let own = run(None).expect("a run");
    let decisions: Vec<_> = own.traces.iter().map(|t| t.decisions.clone()).collect();
    assert_eq!(run(Some(&decisions)).expect("its own decisions"), own);
    let mut none = Decisions::new(40 * 6);
    none.boundary[..6].fill(1);
    let single = vec![none; 2];
    assert_ne!(run(Some(&single)).expect("one state").logits, own.logits);
    let error = run(Some(&decisions[..1])).expect_err("one layer of two");
    assert!(error.is_input() && error.argument() == "replay", "{error}");
    let impossible = vec![Decisions::new(40 * 6); 2];
    assert!(run(Some(&impossible)).expect_err("no state").is_input());
}
