//! The rules that decide, one by one and by hand: boundary, cost, merge, schedule (`docs/algorithm.md` §4, §5, §7).

use dla_core::dla::schedule::{self, Decider};
use dla_core::dla::state::State;
use dla_core::dla::{boundary, compact, merge};
use dla_core::{Backbone, Cache, Config, Decision, Decisions, Dims, Inputs, MergeCost, Schedule};

fn state(matrix: &[f64], n: u32, info: f64) -> State<f64> {
    State {
        matrix: matrix.to_vec(),
        n,
        info,
    }
}

/// Four states of one number whose tokens are 1, 2, 3, 4 and whose information is 10, 20, 30, 40.
fn four() -> Vec<State<f64>> {
    let state = |i: u32| state(&[f64::from(i)], i, f64::from(10 * i));
    (1..=4).map(state).collect()
}

fn summed(states: &[State<f64>]) -> Vec<(f64, u32, f64)> {
    let sums = states.iter().map(|s| (s.matrix[0], s.n, s.info));
    sums.collect()
}

#[test]
fn a_score_opens_from_its_threshold_on() {
    for (score, tau, opens) in [
        (0.9, 0.9, true),
        (0.9f64.next_down(), 0.9, false),
        (0.9f64.next_up(), 0.9, true),
        (0.0, 0.0, true),
        (-0.0, 0.0, true),
        (2.0, f64::INFINITY, false),
        (0.0, f64::NEG_INFINITY, true),
        (f64::INFINITY, 0.9, false),
        (f64::NAN, 0.9, false),
        (f64::NAN, f64::NEG_INFINITY, false),
    ] {
        assert_eq!(boundary::opens(score, tau), opens, "{score} against {tau}");
    }
    let scores = [1.5, 0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    let added = scores.map(boundary::information);
    assert_eq!(added, [1.5, 0.0, -1.0, 0.0, 0.0, 0.0]);
}

#[test]
fn the_first_least_cost_wins() {
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let cases: [(&[f64], usize); 10] = [
        (&[3.0, 1.0, 2.0], 1),
        (&[1.0, 1.0, 0.5, 0.5], 2),
        (&[1.0, 1.0], 0),
        (&[0.0, -0.0], 0),
        (&[1.0, -3.0, 1.0], 1),
        (&[nan, 2.0, 3.0], 1),
        (&[2.0, nan, 1.0], 2),
        (&[nan, nan], 0),
        (&[inf, inf], 0),
        (&[], 0),
    ];
    for (costs, want) in cases {
        assert_eq!(compact::argmin(costs.iter().copied()), want, "{costs:?}");
    }
}

#[test]
fn costs_by_hand() {
    // (3 + 5) / (1 + 3)
    assert_eq!(compact::density([3.0, 5.0], [1, 3]), 2.0);
    // Means (2, 0) of 2 tokens and (0, 1) of 4: 2·4/6 · (2² + 1²).
    let pair = [state(&[4.0, 0.0], 2, 7.0), state(&[0.0, 4.0], 4, 5.0)];
    let ward: f64 = compact::ward([2, 4], [16.0, 16.0], 0.0);
    assert!((ward - 20.0 / 3.0).abs() < 1e-12, "{ward}");
    // Means 3 of 2 tokens and 1 of 4: 2·4/6 · 2².
    let ward: f64 = compact::ward([2, 4], [36.0, 16.0], 24.0);
    assert!((ward - 16.0 / 3.0).abs() < 1e-12, "{ward}");
    // Means 3 of 3 tokens and 1 of 5: 3·5/8 · 2².
    let ward: f64 = compact::ward([3, 5], [81.0, 25.0], 45.0);
    assert!((ward - 7.5).abs() < 1e-12, "{ward}");
    let costs = [MergeCost::Density, MergeCost::Ward, MergeCost::Oldest];
    let costs = costs.map(|cost| compact::pair_cost(cost, &pair));
    assert_eq!((costs[0], costs[2]), (2.0, 0.0));
    assert!((costs[1] - 20.0 / 3.0).abs() < 1e-12, "{costs:?}");
}

#[test]
fn each_cost_chooses_its_own_pair() {
    // By density the last pair is the cheapest, by means (2, 2, 9, 1) the first.
    let states = [
        state(&[2.0], 1, 6.0),
        state(&[4.0], 2, 6.0),
        state(&[9.0], 1, 1.0),
        state(&[1.0], 1, 1.0),
    ];
    let chosen = |states: &[State<f64>]| {
        let costs = [MergeCost::Density, MergeCost::Ward, MergeCost::Oldest];
        costs.map(|cost| compact::cheapest_pair(cost, states))
    };
    assert_eq!(chosen(&states), [2, 0, 0]);
    let turned: Vec<_> = states.iter().rev().cloned().collect();
    assert_eq!(chosen(&turned), [0, 2, 0]);
}

#[test]
fn merging_adds_a_pair_and_keeps_time_order() {
    let merged = |at| {
        let mut states = four();
        merge::pair(&mut states, at);
        summed(&states)
    };
    let [a, b, c, d] = [
        (1.0, 1, 10.0),
        (2.0, 2, 20.0),
        (3.0, 3, 30.0),
        (4.0, 4, 40.0),
    ];
    assert_eq!(merged(0), [(3.0, 3, 30.0), c, d]);
    assert_eq!(merged(1), [a, (5.0, 5, 50.0), d]);
    assert_eq!(merged(2), [a, b, (7.0, 7, 70.0)]);
    assert_eq!(merged(3), [a, b, c, d], "the newest has no partner");
    let suffix = |from| {
        let mut states = four();
        merge::suffix(&mut states, from);
        summed(&states)
    };
    assert_eq!(suffix(0), [(10.0, 10, 100.0)]);
    assert_eq!(suffix(1), [a, (9.0, 9, 90.0)]);
    assert_eq!(suffix(3), [a, b, c, d]);
}

#[test]
fn a_decision_merges_before_it_opens() {
    let apply = |schedule, count: usize, opens, merge_at| {
        let mut states = four();
        states.truncate(count);
        let decision = Decision { opens, merge_at };
        let opens = merge::apply(schedule, &mut states, decision);
        (opens, states.len())
    };
    let dynamic = Schedule::Dynamic;
    for (count, opens, merge_at, want) in [
        (4, true, Some(1), (true, 3)),
        (4, true, None, (true, 4)),
        (4, false, None, (false, 4)),
        (2, true, Some(0), (true, 1)),
        // A lone state has no partner: the token joins it.
        (1, true, Some(0), (false, 1)),
        (1, true, None, (true, 1)),
        (1, false, None, (false, 1)),
        // Nothing to join.
        (0, false, None, (true, 0)),
        (0, true, None, (true, 0)),
    ] {
        let got = apply(dynamic, count, opens, merge_at);
        assert_eq!(got, want, "{count} states, {opens}, {merge_at:?}");
    }
    let fenwick = apply(Schedule::Fenwick, 4, true, Some(1));
    assert_eq!(fenwick, (true, 2), "all from 1 on");
}

fn dims(tokens: usize, capacity: usize) -> Dims {
    Dims {
        batch: 2,
        tokens,
        heads: 2,
        groups: 1,
        key_dim: 1,
        value_dim: 1,
        capacity,
    }
}

fn config(schedule: Schedule) -> Config {
    Config {
        schedule,
        ..Config::new(Backbone::Plain)
    }
}

#[test]
fn positions_decide_for_every_sequence_and_head_at_its_own_place() {
    let dims = dims(4, 2);
    // Sequence 0 has 3 tokens in two states, sequence 1 has none; sequence 1 is three tokens long.
    let n = [2, 1, 2, 1, 0, 0, 0, 0];
    let fixed = config(Schedule::Fixed { block: 3 });
    let (decisions, counts) =
        schedule::decide(&dims, &fixed, Some(&[4, 3]), Some(&n)).expect("positions decide");
    // [batch, tokens, heads]
    let boundary = [1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0];
    assert_eq!(decisions.boundary, boundary);
    let merge_at = [0, 0, -1, -1, -1, -1, 0, 0, -1, -1, -1, -1, -1, -1, -1, -1];
    assert_eq!(decisions.merge_at, merge_at);
    assert_eq!(counts, [2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 0, 0]);
    let (single, counts) =
        schedule::decide(&dims, &config(Schedule::Single), None, None).expect("positions decide");
    assert_eq!(single.boundary, [1, 1, 0, 0, 0, 0, 0, 0].repeat(2));
    assert_eq!(counts, [1; 16]);
    for schedule in [Schedule::Dynamic, Schedule::Offline] {
        let error = schedule::decide(&dims, &config(schedule), None, None);
        let error = error.expect_err("more than positions");
        assert!(
            error.is_input() && error.argument() == "schedule",
            "{error}"
        );
    }
}

#[test]
fn given_decisions_come_first_then_the_schedules_own() {
    let dims = dims(3, 2);
    let (ones, lambda) = ([1.0f64; 12], [1.0; 24]);
    let inputs = Inputs {
        q: &ones[..6],
        k: &ones[..6],
        v: &ones,
        g: None,
        beta: None,
        lambda: &lambda,
        tau: &[0.5; 2],
        lengths: None,
        replay: None,
    };
    let forced = |schedule, inputs: &Inputs<'_, f64>, cache: Option<&Cache<f64>>| {
        let forced = schedule::forced(&dims, &config(schedule), inputs, cache);
        forced.expect("decisions").map(|forced| forced.into_owned())
    };
    assert_eq!(forced(Schedule::Dynamic, &inputs, None), None);
    let given = Decisions {
        boundary: vec![1; 12],
        merge_at: vec![-1; 12],
    };
    let replayed = Inputs {
        replay: Some(&given),
        ..inputs
    };
    for schedule in [Schedule::Dynamic, Schedule::Single, Schedule::Offline] {
        assert_eq!(forced(schedule, &replayed, None), Some(given.clone()));
    }
    let single = forced(Schedule::Single, &inputs, None).expect("known beforehand");
    assert_eq!(single.boundary, [1, 1, 0, 0, 0, 0].repeat(2));
    // One token is there already: no boundary at all.
    let mut cache = Cache::new(&dims);
    for head in 0..4 {
        cache.n[2 * head] = 1;
    }
    let single = forced(Schedule::Single, &inputs, Some(&cache)).expect("known beforehand");
    assert_eq!(single.boundary, [0; 12]);
    // All tokens are alike: one block is the best, as the whole sequence shows.
    let offline = forced(Schedule::Offline, &inputs, None).expect("known beforehand");
    assert_eq!(offline.boundary, [1, 1, 0, 0, 0, 0].repeat(2));
}

#[test]
fn the_dynamic_rule_by_hand() {
    let decide = |capacity, tau, score, states: &[State<f64>], forced| {
        let config = config(Schedule::Dynamic);
        Decider::new(&config, capacity, tau, forced).decide(0, score, states)
    };
    let decision = |opens, merge_at| Decision { opens, merge_at };
    let four = four();
    // Densities of 10 everywhere: the oldest pair.
    assert_eq!(decide(4, 0.5, 0.5, &four, None), decision(true, Some(0)));
    assert_eq!(decide(4, 0.5, 0.4, &four, None), decision(false, None));
    assert_eq!(decide(5, 0.5, 0.5, &four, None), decision(true, None));
    assert_eq!(decide(5, 0.5, 0.4, &four, None), decision(false, None));
    assert_eq!(decide(4, 0.5, 0.0, &[], None), decision(true, None));
    assert_eq!(
        decide(1, 0.5, 0.9, &four[..1], None),
        decision(true, Some(0))
    );
    let given = Decisions {
        boundary: vec![1],
        merge_at: vec![2],
    };
    let followed = decide(4, 0.5, 0.0, &four, Some(&given));
    assert_eq!(followed, decision(true, Some(2)), "whatever the score");
}
