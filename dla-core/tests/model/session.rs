//! Sessions: kept, rolled back, saved, restored, reset; a mistake leaves them as they were.

use dla_core::Model;
use dla_core::model::Rows;

use crate::support::{attention, dynamic, gated_delta, ids, mamba2, random};

/// A DLA model of each backbone, and softmax attention.
fn models() -> [Model; 3] {
    let [mamba2, gated_delta] = [mamba2().0, gated_delta().0].map(|plain| dynamic(plain, 4));
    [mamba2, gated_delta, attention()].map(|config| random(&config))
}

#[test]
fn kind_05_and_10_restored_and_rolled_back_continue_bit_for_bit() {
    for model in models() {
        let mut session = model.session();
        model
            .prefill(&mut session, &ids(37), Rows::All)
            .expect("valid ids");
        let (snapshot, saved) = (session.snapshot(), session.save());
        let want = model
            .prefill(&mut session, &ids(9), Rows::All)
            .expect("valid ids");
        session.rollback(&snapshot);
        assert_eq!(session.position(), 37);
        assert_eq!(
            model
                .prefill(&mut session, &ids(9), Rows::All)
                .expect("valid ids"),
            want
        );
        let mut restored = model.session();
        restored.load(&saved).expect("saved by this model");
        assert_eq!(restored.save(), saved);
        assert_eq!(
            model
                .prefill(&mut restored, &ids(9), Rows::All)
                .expect("valid ids"),
            want
        );
    }
}

#[test]
fn kind_06_a_reset_session_is_a_new_one() {
    for model in models() {
        let mut session = model.session();
        model
            .prefill(&mut session, &ids(11), Rows::All)
            .expect("valid ids");
        session.reset();
        assert_eq!(session, model.session());
    }
}

#[test]
fn mistakes_leave_the_session_as_it_was() {
    let [model, other, _] = models();
    let mut session = model.session();
    model
        .prefill(&mut session, &ids(5), Rows::All)
        .expect("valid ids");
    let before = session.clone();
    for id in [23, 65_536 + 1, u32::MAX] {
        let error = model
            .prefill(&mut session, &[1, id], Rows::All)
            .expect_err("beyond the vocabulary");
        assert!(
            error.is_input() && error.argument() == "input_ids",
            "{error}"
        );
    }
    let error = other
        .step(&mut session, 1)
        .expect_err("another model's session");
    assert!(error.is_input(), "{error}");
    assert_eq!(session, before);
}

#[test]
fn saved_bytes_of_any_other_form_are_refused() {
    let models = models();
    for (model, other) in models.iter().zip(models.iter().cycle().skip(1)) {
        let mut session = model.session();
        model
            .prefill(&mut session, &ids(5), Rows::All)
            .expect("valid ids");
        let saved = session.save();
        let before = session.clone();
        for len in 0..saved.len() {
            assert!(session.load(&saved[..len]).is_err(), "cut to {len} bytes");
        }
        assert!(session.load(&[&saved[..], &[0]].concat()).is_err());
        for at in 0..16 {
            let mut changed = saved.clone();
            changed[at] ^= 0x80;
            assert!(session.load(&changed).is_err(), "byte {at} changed");
        }
        assert!(session.load(&other.session().save()).is_err());
        assert_eq!(session, before);
    }
}

#[test]
fn kind_47_changed_bytes_of_a_saved_session_are_refused() {
    for model in models() {
        let mut session = model.session();
        model
            .prefill(&mut session, &ids(5), Rows::None)
            .expect("valid ids");
        let (saved, before) = (session.save(), session.clone());
        for at in 0..saved.len() {
            let mut changed = saved.clone();
            changed[at] ^= 1 << (at % 8);
            let error = session.load(&changed).expect_err("a flipped bit");
            assert!(error.is_file(), "byte {at}: {error}");
            let argument = ["magic", "version", "checksum"][(at / 4).min(2)];
            assert_eq!(error.argument(), argument, "byte {at}: {error}");
        }
        assert_eq!(session, before);
        session.load(&saved).expect("what was saved");
    }
}
