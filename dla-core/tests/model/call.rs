//! What a call is asked for: logits of some tokens, decisions given.

use dla_core::model::{Call, DlaConfig, ModelConfig, Rows};
use dla_core::{Config, Decisions, Model};

use crate::support::{ids, mamba2, random};

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
