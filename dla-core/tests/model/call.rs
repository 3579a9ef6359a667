//! What a call is asked for: logits of some tokens, decisions given.

use dla_core::model::{Call, DlaConfig, ModelConfig, Rows};
use dla_core::{Config, Decisions, Model, Schedule};

use crate::support::{gated_delta, ids, mamba2, random};

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
            let reply = model.run(session, ids, &Call::default());
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
