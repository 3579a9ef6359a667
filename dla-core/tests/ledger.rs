//! The ledger: what it knows from scores and decisions is what the cache of the run knows.

mod common;

use common::{Case, generate};
use dla_core::dla::{chunk, recurrent, state};
use dla_core::trace::ledger::{Entry, Event, Ledger, LiveState};
use dla_core::{Backbone, Cache, Config, Decisions, Dims, Output, Schedule, dla::schedule};
use proptest::prelude::*;

fn run(case: &Case<f32>, cache: Option<&Cache<f32>>) -> Output<f32> {
    recurrent::forward(&case.dims, &case.config, &case.inputs(), cache).expect("a valid case")
}

fn take(ledger: &mut Ledger, case: &Case<f32>, output: &Output<f32>) -> Vec<Entry> {
    let trace = &output.trace;
    let lengths = case.lengths.as_deref();
    let mut entries = Vec::new();
    ledger
        .take(
            case.dims.tokens,
            &trace.score,
            &trace.decisions,
            lengths,
            |e| entries.push(*e),
        )
        .expect("the decisions of a run");
    entries
}

/// `n` and Ī bit for bit, and spans that cover the sequence in order.
fn assert_agrees(ledger: &Ledger, case: &Case<f32>, cache: &Cache<f32>) {
    let dims = &case.dims;
    for b in 0..dims.batch {
        for h in 0..dims.heads {
            let states = state::load(dims, case.config.schedule, cache, b, h);
            let want: Vec<_> = states.iter().map(|s| (s.n, s.info.to_bits())).collect();
            let live = ledger.states(b, h);
            let got: Vec<_> = live.iter().map(|s| (s.n, s.info.to_bits())).collect();
            assert_eq!(got, want, "sequence {b}, head {h} of {case:?}");
            let mut next = 0;
            for state in live {
                assert_eq!(state.start, next, "{live:?}");
                next = state.tokens().end;
            }
            assert_eq!(next, ledger.position(b), "{live:?}");
            assert!(live.windows(2).all(|pair| pair[0].id < pair[1].id));
        }
    }
}

/// The states that the events alone tell of.
fn replayed(entries: &[Entry], (b, h): (usize, usize)) -> Vec<LiveState> {
    let mut states: Vec<LiveState> = Vec::new();
    for entry in entries {
        if (entry.sequence, entry.head) != (b, h) {
            continue;
        }
        match entry.event {
            Event::Merged { at, older, newer } => {
                assert_eq!(states[at..at + 2], [older, newer]);
                states[at] = older.merged(&newer);
                states.remove(at + 1);
            }
            Event::Opened { state, score } => states.push(LiveState {
                id: state,
                start: entry.token,
                n: 1,
                info: if score.is_finite() { score } else { 0.0 },
            }),
            Event::Joined { state, score } => {
                let open = states.last_mut().expect("an open state");
                assert_eq!(open.id, state);
                open.n += 1;
                open.info += if score.is_finite() { score } else { 0.0 };
            }
        }
    }
    states
}

/// Some values that make scores non-finite.
fn spoil(case: &mut Case<f32>) {
    let stride = 3 * case.dims.value_dim + 1;
    for at in (5..case.v.len()).step_by(stride * 4) {
        case.v[at] = [f32::NAN, f32::INFINITY][at % 2];
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..Default::default() })]

    #[test]
    fn the_ledger_is_the_cache(
        case in generate::cases(generate::online()),
        cuts in proptest::collection::vec(0.0..1.0f64, 0..4),
        lengths in proptest::option::of(proptest::collection::vec(0.0..=1.0f64, 2)),
        spoilt in any::<bool>(),
    ) {
        let mut case = case.cast::<f32>();
        let tokens = case.dims.tokens;
        if spoilt {
            spoil(&mut case);
        }
        if let Some(lengths) = lengths {
            let length = |x: &f64| (x * tokens as f64) as u32;
            case.lengths = Some(lengths[..case.dims.batch].iter().map(length).collect());
        }
        let mut cuts: Vec<_> = cuts.iter().map(|x| (x * tokens as f64) as usize).collect();
        cuts.push(tokens);
        cuts.sort_unstable();
        let mut ledger = Ledger::new(case.dims, case.config.schedule).expect("sizes");
        let (mut cache, mut entries, mut from) = (Cache::new(&case.dims), Vec::new(), 0);
        for to in cuts {
            let piece = case.piece(from..to);
            let output = run(&piece, Some(&cache));
            let resumed = Ledger::from_cache(piece.dims, piece.config.schedule, &cache);
            let mut resumed = resumed.expect("the cache of a run");
            take(&mut resumed, &piece, &output);
            assert_agrees(&resumed, &piece, &output.cache);
            entries.extend(take(&mut ledger, &piece, &output));
            assert_agrees(&ledger, &piece, &output.cache);
            (cache, from) = (output.cache, to);
        }
        for (b, h) in (0..case.dims.batch).flat_map(|b| (0..case.dims.heads).map(move |h| (b, h))) {
            prop_assert_eq!(replayed(&entries, (b, h)), ledger.states(b, h));
        }
    }

    /// The chunkwise form adds its scores up in another order, and no token elsewhere.
    #[test]
    fn chunks_leave_the_same_states(case in generate::cases(generate::online()), size in 1..20usize) {
        let case = case.cast::<f32>();
        let output = chunk::forward(&case.dims, &case.config, &case.inputs(), None, size);
        let output = output.expect("a valid case");
        let mut ledger = Ledger::new(case.dims, case.config.schedule).expect("sizes");
        take(&mut ledger, &case, &output);
        for (b, h) in (0..case.dims.batch).flat_map(|b| (0..case.dims.heads).map(move |h| (b, h))) {
            let states = state::load(&case.dims, case.config.schedule, &output.cache, b, h);
            let live = ledger.states(b, h);
            prop_assert_eq!(live.len(), states.len());
            for (live, state) in live.iter().zip(&states) {
                prop_assert_eq!(live.n, state.n);
                let close = (live.info - state.info).abs() <= 1e-5 * (1.0 + state.info.abs());
                prop_assert!(close, "{} and {}", live.info, state.info);
            }
        }
    }
}

fn dims(tokens: usize, capacity: usize) -> Dims {
    Dims {
        batch: 1,
        tokens,
        heads: 1,
        groups: 1,
        key_dim: 3,
        value_dim: 3,
        capacity,
    }
}

#[test]
fn every_token_and_head_has_one_opening_or_joining() {
    for schedule in [
        Schedule::Dynamic,
        Schedule::Fenwick,
        Schedule::Fixed { block: 2 },
    ] {
        let config = Config {
            schedule,
            ..Config::new(Backbone::Decay)
        };
        let case = generate::case(dims(40, schedule::levels(40)), config, 0.4, 3).cast::<f32>();
        let output = run(&case, None);
        let mut ledger = Ledger::new(case.dims, schedule).expect("sizes");
        let entries = take(&mut ledger, &case, &output);
        let written = entries
            .iter()
            .filter(|e| !matches!(e.event, Event::Merged { .. }));
        let positions: Vec<_> = written.map(|e| e.token).collect();
        assert_eq!(positions, (0..40).collect::<Vec<_>>(), "{schedule:?}");
        let merges = entries.len() - positions.len();
        assert!(merges > 5, "{schedule:?} merges in this case: {merges}");
    }
}

#[test]
fn a_lone_state_takes_every_token() {
    let config = Config::new(Backbone::Plain);
    let case = generate::case(dims(30, 1), config, 0.0, 7).cast::<f32>();
    let output = run(&case, None);
    assert_eq!(output.trace.decisions.boundary, [1; 30]);
    let mut ledger = Ledger::new(case.dims, Schedule::Dynamic).expect("sizes");
    let entries = take(&mut ledger, &case, &output);
    assert_agrees(&ledger, &case, &output.cache);
    assert_eq!(entries.len(), 30);
    let joined = |e: &&Entry| matches!(e.event, Event::Joined { state: 0, .. });
    assert_eq!(entries.iter().filter(joined).count(), 29);
}

#[test]
fn what_no_run_could_have_decided_is_refused_and_changes_nothing() {
    let dims = dims(3, 2);
    let mut ledger = Ledger::new(dims, Schedule::Dynamic).expect("sizes");
    let good = Decisions {
        boundary: vec![1, 0, 1],
        merge_at: vec![-1; 3],
    };
    let before = ledger.clone();
    let mut refuse = |score: &[f32], decisions: &Decisions, lengths: Option<&[u32]>, name: &str| {
        let error = ledger
            .take(3, score, decisions, lengths, |_| panic!("no events"))
            .expect_err(name);
        assert!(
            error.is_input() && error.argument() == name,
            "{name}: {error}"
        );
        assert_eq!(ledger, before, "{name}");
    };
    refuse(&[0.0; 2], &good, None, "score");
    refuse(&[0.0; 3], &good, Some(&[4]), "lengths");
    refuse(&[0.0; 3], &good, Some(&[1, 1]), "lengths");
    let mut bad = good.clone();
    bad.boundary[0] = 0;
    refuse(&[0.0; 3], &bad, None, "boundary");
    let mut bad = good.clone();
    bad.merge_at[2] = 0;
    refuse(&[0.0; 3], &bad, None, "merge_at");
    assert!(ledger.states(0, 0).is_empty() && ledger.states(1, 5).is_empty());
    let whole = Dims { heads: 0, ..dims };
    assert!(Ledger::new(whole, Schedule::Dynamic).is_err());
}

#[test]
fn a_state_knows_its_tokens_and_their_mean_information() {
    let state = LiveState {
        id: 3,
        start: 10,
        n: 4,
        info: 6.0,
    };
    assert_eq!((state.tokens(), state.density()), (10..14, 1.5));
    let newer = LiveState {
        id: 5,
        start: 14,
        n: 2,
        info: 1.0,
    };
    let both = LiveState {
        n: 6,
        info: 7.0,
        ..state
    };
    assert_eq!(state.merged(&newer), both);
}

/// Positions are 32 bits: the last one can be taken, and none beyond it.
#[test]
fn a_sequence_ends_at_32_bits() {
    let dims = dims(0, 2);
    let mut cache = Cache::new(&dims);
    cache.n[0] = u32::MAX - 2;
    let mut ledger = Ledger::from_cache(dims, Schedule::Dynamic, &cache).expect("a cache");
    let mut take = |tokens: usize| {
        let decisions = Decisions {
            boundary: vec![0; tokens],
            merge_at: vec![-1; tokens],
        };
        ledger.take(tokens, &vec![0.0; tokens], &decisions, None, |_| ())
    };
    let error = take(3).expect_err("one too many");
    assert_eq!(error.argument(), "tokens", "{error}");
    take(2).expect("the last two");
    take(0).expect("nothing");
    assert!(take(1).is_err());
    assert_eq!(ledger.position(0), u64::from(u32::MAX));
    assert_eq!(ledger.position(1), 0, "beyond the batch");
}

#[test]
fn events_are_plain_json() {
    let entry = Entry {
        sequence: 0,
        head: 2,
        token: 9,
        event: Event::Opened {
            state: 4,
            score: 0.5,
        },
    };
    let want = serde_json::json!(
        {"sequence": 0, "head": 2, "token": 9, "event": "opened", "state": 4, "score": 0.5}
    );
    assert_eq!(serde_json::to_value(entry).expect("JSON"), want);
}
