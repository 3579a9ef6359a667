//! Decisions recorded, compared, replayed and judged.

mod common;

use common::{Case, File, assert_close, case_names, generate, golden};
use dla_core::dla::{chunk, recurrent};
use dla_core::trace::{Fault, Place, first_difference, judge};
use dla_core::{Backbone, Config, Decision, Decisions, Dims, MergeCost, Output, Real, Schedule};

/// Nearly every token is a boundary and merges another pair.
fn busy(backbone: Backbone, merge: MergeCost) -> Case<f64> {
    let dims = Dims {
        batch: 1,
        tokens: 1200,
        heads: 2,
        groups: 1,
        key_dim: 12,
        value_dim: 8,
        capacity: 30,
    };
    let config = Config {
        merge,
        ..Config::new(backbone)
    };
    generate::case(dims, config, 0.3, 5)
}

fn forward<R: Real>(case: &Case<R>) -> Output<R> {
    recurrent::forward(&case.dims, &case.config, &case.inputs(), None).expect("a valid case")
}

fn verdict(case: &Case<f64>, decisions: &Decisions) -> dla_core::trace::Judgement<f64> {
    judge(&case.dims, &case.config, &case.inputs(), None, decisions).expect("decisions of a run")
}

#[test]
fn single_precision_is_right_where_almost_every_token_merges() {
    for backbone in [Backbone::Plain, Backbone::Decay, Backbone::Delta] {
        for merge in [MergeCost::Density, MergeCost::Ward, MergeCost::Oldest] {
            let case = busy(backbone, merge);
            let single = case.cast::<f32>();
            let chunked = chunk::forward(&single.dims, &single.config, &single.inputs(), None, 64)
                .expect("a valid case");
            for output in [forward(&single), chunked] {
                let judged = verdict(&case, &output.trace.decisions);
                let what = format!(
                    "{backbone}, {merge}: {} near ties of {}",
                    judged.near_ties, judged.decisions
                );
                assert_eq!(judged.fault, None, "{what}");
                assert_close(&what, &output.o, &judged.output.o, 1e-4);
                println!("{what}");
            }
        }
    }
}

/// Single precision on the golden cases, by the margin rule: `ties` parts ways, and every parting is a tie.
#[test]
fn single_precision_is_right_on_every_golden_case() {
    for name in case_names(&golden("op")) {
        let file = File::read(&golden("op").join(format!("{name}.safetensors")));
        let case = Case::<f64>::from_file(&file);
        let output = forward(&case.cast::<f32>());
        let judged = verdict(&case, &output.trace.decisions);
        assert_eq!(judged.fault, None, "{name}");
        assert_close(&name, &output.o, &judged.output.o, 1e-4);
    }
}

#[test]
fn wrong_decisions_are_found() {
    let case = busy(Backbone::Decay, MergeCost::Density);
    let right = forward(&case).trace.decisions;
    assert_eq!(verdict(&case, &right).fault, None);

    let mut moved = right.clone();
    let at = case.dims.token_head(0, 900, 1);
    assert_eq!(moved.boundary[at], 1, "the regime of this case");
    moved.merge_at[at] = (moved.merge_at[at] + 9) % 29;
    let fault = verdict(&case, &moved)
        .fault
        .expect("another pair is dearer");
    let place = Place {
        sequence: 0,
        token: 900,
        head: 1,
    };
    assert_eq!(fault.place, place);
    assert!(fault.distance > 1e-4 && fault.distance < 2.0, "{fault}");
    assert_eq!(
        first_difference(&case.dims, None, &right, &moved),
        Some(place)
    );

    let mut joined = right.clone();
    joined.boundary[at] = 0;
    joined.merge_at[at] = -1;
    let fault = verdict(&case, &joined).fault.expect("the score is above τ");
    assert_eq!(fault.place, place);
}

#[test]
fn wrong_decisions_of_a_planned_schedule_are_found() {
    let mut case = busy(Backbone::Plain, MergeCost::Density);
    case.config.schedule = Schedule::Fixed { block: 4 };
    case = generate::case(
        Dims {
            tokens: 100,
            ..case.dims
        },
        case.config,
        0.0,
        5,
    );
    let mut decisions = forward(&case).trace.decisions;
    assert_eq!(verdict(&case, &decisions).fault, None);
    let at = case.dims.token_head(0, 17, 0);
    decisions.boundary[at] = 1;
    let fault = verdict(&case, &decisions)
        .fault
        .expect("17 is no multiple of 4");
    assert_eq!(fault.place.token, 17);
    assert_eq!(fault.distance, f64::INFINITY);
    let judged = verdict(&case, &decisions);
    assert_eq!((judged.decisions, judged.near_ties), (200, 0));
    case.lengths = Some(vec![15]);
    let judged = verdict(&case, &decisions);
    let short = (judged.decisions, judged.fault);
    assert_eq!(short, (30, None), "17 is behind the end");
}

/// Every head of every sequence is judged by its own τ and named by its own place.
#[test]
fn each_head_is_judged_by_its_own_threshold() {
    let dims = Dims {
        batch: 2,
        tokens: 30,
        heads: 3,
        groups: 1,
        key_dim: 5,
        value_dim: 4,
        capacity: 30,
    };
    let mut case = generate::case(dims, Config::new(Backbone::Decay), 0.0, 9);
    case.tau = vec![0.5, f64::INFINITY, -1.0];
    let right = forward(&case).trace.decisions;
    let judged = verdict(&case, &right);
    assert_eq!((judged.fault, judged.decisions), (None, 2 * 3 * 29));
    for (sequence, head) in (0..2).flat_map(|b| (0..3).map(move |h| (b, h))) {
        let place = Place {
            sequence,
            token: 7,
            head,
        };
        let at = dims.token_head(sequence, 7, head);
        let mut wrong = right.clone();
        wrong.boundary[at] = 1 - wrong.boundary[at];
        let fault = verdict(&case, &wrong).fault.expect("turned");
        assert_eq!(fault.place, place);
        assert_eq!(first_difference(&dims, None, &right, &wrong), Some(place));
    }
    // Of several wrong decisions the first one of the first head that has one.
    let mut wrong = right.clone();
    for (sequence, token, head) in [(1, 3, 0), (0, 20, 1), (0, 11, 1)] {
        let at = dims.token_head(sequence, token, head);
        wrong.boundary[at] = 1 - wrong.boundary[at];
    }
    let place = verdict(&case, &wrong).fault.expect("turned").place;
    assert_eq!((place.sequence, place.token, place.head), (0, 11, 1));
    let first = first_difference(&dims, None, &right, &wrong).expect("turned");
    assert_eq!((first.sequence, first.token, first.head), (1, 3, 0));
}

#[test]
fn a_fault_says_where_what_and_how_far() {
    let said = |opens, merge_at| {
        let fault = Fault {
            place: Place {
                sequence: 1,
                token: 23,
                head: 4,
            },
            decided: Decision { opens, merge_at },
            distance: 0.25,
        };
        fault.to_string()
    };
    let at = "sequence 1, token 23, head 4";
    let end = "0.25 away from a tie";
    assert_eq!(said(true, None), format!("{at}: boundary, {end}"));
    let merging = format!("{at}: boundary, merging at 2, {end}");
    assert_eq!(said(true, Some(2)), merging);
    assert_eq!(said(false, None), format!("{at}: no boundary, {end}"));
}

#[test]
fn differences_behind_a_shorter_item_do_not_count() {
    let dims = Dims {
        tokens: 4,
        ..busy(Backbone::Plain, MergeCost::Density).dims
    };
    let a = Decisions::new(dims.token_heads());
    let mut b = a.clone();
    b.boundary[dims.token_head(0, 3, 0)] = 1;
    assert_eq!(first_difference(&dims, Some(&[3]), &a, &b), None);
    assert!(first_difference(&dims, Some(&[4]), &a, &b).is_some());
}
