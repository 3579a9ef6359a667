//! Thresholds at their edges. What lies just inside a margin and just outside is told apart, and what lies at a threshold
//! falls on the documented side (`docs/algorithm.md` §3, §9).

mod common;

use dla_core::dla::{chunk, recurrent};
use dla_core::trace::{Judgement, judge, margin};
use dla_core::{Backbone, Cache, Config, Decisions, Dims, Inputs, MergeCost, Norm, Output, Real};

/// A carried state of one number: its mean over the tokens, its tokens, its information.
type Carried = (f64, u32, f64);

fn dims(capacity: usize) -> Dims {
    Dims {
        batch: 1,
        tokens: 1,
        heads: 1,
        groups: 1,
        key_dim: 1,
        value_dim: 1,
        capacity,
    }
}

fn cache(carried: &[Carried], capacity: usize) -> Cache<f64> {
    let mut cache = Cache::new(&dims(capacity));
    for (i, &(mean, n, info)) in carried.iter().enumerate() {
        cache.states[i] = mean * f64::from(n);
        cache.n[i] = n;
        cache.info[i] = info;
    }
    cache
}

/// The verdict on one token of value `v` that meets `carried` in a cache of `capacity` and decides `boundary`, `merge_at`.
fn verdict(
    merge: MergeCost,
    carried: &[Carried],
    capacity: usize,
    (v, tau): (f64, f64),
    (boundary, merge_at): (u8, i32),
) -> Judgement<f64> {
    let config = Config {
        norm: Norm::None,
        merge,
        epsilon: 0.0,
        ..Config::new(Backbone::Plain)
    };
    let inputs = Inputs {
        q: &[1.0],
        k: &[1.0],
        v: &[v],
        g: None,
        beta: None,
        lambda: &vec![1.0; capacity],
        tau: &[tau],
        lengths: None,
        replay: None,
    };
    let decisions = Decisions {
        boundary: vec![boundary],
        merge_at: vec![merge_at],
    };
    let cache = cache(carried, capacity);
    let judged = judge(&dims(capacity), &config, &inputs, Some(&cache), &decisions);
    judged.expect("decisions that a run can make")
}

#[test]
fn kind_70_the_margin_is_what_is_documented() {
    let below = 0.02f64.next_down();
    let values = [-1.0, 0.0, 0.01, below, 0.02, 0.5, 2.0, f64::INFINITY];
    let want = [2e-3, 2e-3, 2e-3, 2e-3, 1e-4, 1e-4, 1e-4, 1e-4];
    assert_eq!(values.map(margin), want);
    assert_eq!(margin(f64::NAN), 1e-4, "the narrower one");
}

/// A boundary decided against the rule is excused inside the margin only.
#[test]
fn kind_70_a_boundary_is_excused_inside_its_margin_only() {
    // ‖s − S‖ / ‖S‖ with S = 1.
    for (score, margin) in [(0.6, 1e-4), (0.0201, 1e-4), (0.0199, 2e-3), (0.0, 2e-3)] {
        for (side, tau_above) in [(0.99, true), (0.99, false), (1.01, true), (1.01, false)] {
            let distance = side * margin;
            let (tau, wrong) = match tau_above {
                true => (score + distance, 1),
                false => (score - distance, 0),
            };
            let judge = |boundary| {
                let what = (1.0 + score, tau);
                verdict(
                    MergeCost::Density,
                    &[(1.0, 1, 0.0)],
                    2,
                    what,
                    (boundary, -1),
                )
            };
            let what = format!("score {score}, τ {tau}");
            let (wrongly, rightly) = (judge(wrong), judge(1 - wrong));
            assert_eq!(wrongly.fault.is_some(), side > 1.0, "{what}: {wrongly:?}");
            assert_eq!(rightly.fault, None, "{what}");
            for judged in [wrongly, rightly] {
                let counted = (judged.decisions, judged.near_ties);
                assert_eq!(counted, (1, u64::from(side < 1.0)), "{what}");
                let gap = judged.fault.map_or(distance, |fault| fault.distance);
                assert!((gap - distance).abs() < 1e-12, "{what}: {gap}");
            }
        }
    }
    // Exactly at the margin is inside: a score of 0, and 2e-3 between it and τ.
    for (tau, boundary) in [(2e-3, 1), (-2e-3, 0)] {
        let at = verdict(
            MergeCost::Density,
            &[(1.0, 1, 0.0)],
            2,
            (1.0, tau),
            (boundary, -1),
        );
        assert_eq!((at.near_ties, at.fault), (1, None), "τ {tau}");
    }
}

/// The verdict on a boundary that is clear and a merge at `at`.
fn merging(cost: MergeCost, carried: &[Carried], at: i32) -> Judgement<f64> {
    let newest = carried
        .last()
        .map_or(1.0, |&(mean, n, _)| mean * f64::from(n));
    verdict(cost, carried, carried.len(), (newest, -1.0), (1, at))
}

/// Holds a merge of the dearer pair, and one of the cheaper pair, to what a gap `inside` the margin or outside means.
fn assert_merges(cost: MergeCost, carried: &[Carried], gap: f64, inside: bool) {
    let mut turned = carried.to_vec();
    turned.reverse();
    for (carried, cheaper) in [(carried, 0), (&turned[..], 1)] {
        let what = format!("{cost}, {carried:?}, gap {gap}");
        let (wrongly, rightly) = (
            merging(cost, carried, 1 - cheaper),
            merging(cost, carried, cheaper),
        );
        assert_eq!(rightly.fault, None, "{what}");
        assert_eq!(wrongly.fault.is_none(), inside, "{what}: {wrongly:?}");
        for judged in [wrongly, rightly] {
            let counted = (judged.decisions, judged.near_ties);
            assert_eq!(counted, (2, u64::from(inside)), "{what}");
            if let Some(fault) = judged.fault {
                assert!(
                    (fault.distance - gap).abs() <= 1e-9 * gap,
                    "{what}: {fault}"
                );
                assert_eq!(fault.decided.merge_at, Some(1 - cheaper as usize), "{what}");
            }
        }
    }
}

/// (Ī_i + Ī_j) / (n_i + n_j): the margin is absolute, in information per token.
#[test]
fn kind_70_a_merge_by_density_is_excused_inside_its_margin_only() {
    let costs = [
        (0.5, 1e-4),
        (0.0201, 1e-4),
        (0.0199, 2e-3),
        (0.0, 2e-3),
        (-0.3, 2e-3),
    ];
    for (least, margin) in costs {
        for side in [0.99, 1.01] {
            let gap = side * margin;
            // Three states of 1, 3 and 2 tokens.
            let oldest = 4.0 * least - 0.1;
            let newest = 5.0 * (least + gap) - 0.1;
            let carried = [(1.0, 1, oldest), (1.0, 3, 0.1), (1.0, 2, newest)];
            assert_merges(MergeCost::Density, &carried, gap, side < 1.0);
        }
    }
    // Exactly at the margin is inside: costs of 0 and 2e-3.
    let at = [(1.0, 1, 0.0), (1.0, 1, 0.0), (1.0, 1, 4e-3)];
    assert_merges(MergeCost::Density, &at, 2e-3, true);
}

/// n_i n_j / (n_i + n_j) ‖mean_i − mean_j‖²: the margin is a share of the sizes n ‖mean‖² of both pairs' states.
#[test]
fn kind_70_a_merge_by_ward_is_excused_inside_its_margin_only() {
    let cost = |[a, b]: [(f64, u32); 2]| {
        let (n, m) = (f64::from(a.1), f64::from(b.1));
        n * m / (n + m) * (a.0 - b.0).powi(2)
    };
    let size = |(mean, n): (f64, u32)| f64::from(n) * mean * mean;
    // A share of 1/22 or so of the sizes, then one below 0.02.
    let starts = [
        ([1.0, 3.0], [1, 1, 1], 1e-4),
        ([1.0, 3.0], [2, 1, 3], 1e-4),
        ([10.0, 10.1], [2, 3, 1], 2e-3),
    ];
    for ([a, b], [n, m, last], margin) in starts {
        for (side, scale) in [
            (0.99, 1.0),
            (1.01, 1.0),
            (0.99, 1e-4),
            (1.01, 1e-4),
            (0.99, 1e4),
            (1.01, 1e4),
        ] {
            let least = cost([(a, n), (b, m)]);
            let (mut c, mut gap) = (b, 0.0);
            for _ in 0..60 {
                let sizes = size((a, n)) + 2.0 * size((b, m)) + size((c, last));
                assert_eq!(margin, dla_core::trace::margin(least / sizes), "as chosen");
                gap = side * margin * sizes;
                let pair = f64::from(m * last) / f64::from(m + last);
                c = b + ((least + gap) / pair).sqrt();
            }
            let carried = [
                (a * scale, n, 0.0),
                (b * scale, m, 0.0),
                (c * scale, last, 0.0),
            ];
            assert_merges(MergeCost::Ward, &carried, gap * scale * scale, side < 1.0);
        }
    }
}

/// Of more than two pairs the next cheapest one says how near a tie is.
#[test]
fn kind_70_the_next_cheapest_pair_is_the_rival() {
    // Costs 0.5, 0.9, 0.50005: the first and the last are near a tie.
    let near = [
        (1.0, 1, 0.5),
        (1.0, 1, 0.5),
        (1.0, 1, 1.3),
        (1.0, 1, -0.2999),
    ];
    let far = [(1.0, 1, 0.5), (1.0, 1, 0.5), (1.0, 1, 1.3), (1.0, 1, -0.29)];
    let verdicts = |carried: &[Carried]| {
        [0, 1, 2].map(|at| {
            let judged = merging(MergeCost::Density, carried, at);
            (judged.near_ties, judged.fault.is_some())
        })
    };
    assert_eq!(verdicts(&near), [(1, false), (0, true), (1, false)]);
    assert_eq!(verdicts(&far), [(0, false), (0, true), (0, true)]);
}

/// Merges that no cost decides have no near ties.
#[test]
fn kind_70_a_merge_without_a_choice_is_no_near_tie() {
    let carried = [(1.0, 1, 0.1), (1.0, 1, 0.2), (1.0, 1, 0.3)];
    for (cost, carried) in [
        (MergeCost::Oldest, &carried[..]),
        (MergeCost::Density, &carried[..2]),
        (MergeCost::Ward, &carried[..2]),
        (MergeCost::Density, &carried[..1]),
    ] {
        let judged = merging(cost, carried, 0);
        let counted = (judged.decisions, judged.near_ties, judged.fault);
        assert_eq!(counted, (2, 0, None), "{cost}, {} states", carried.len());
    }
    let judged = merging(MergeCost::Oldest, &carried, 1);
    let fault = judged.fault.expect("not the oldest pair");
    assert_eq!(fault.distance, f64::INFINITY);
}

/// The first token has nothing to be compared with: no decision of the rule's.
#[test]
fn kind_70_the_first_token_is_no_decision() {
    let judged = verdict(MergeCost::Density, &[], 2, (1.0, 0.0), (1, -1));
    assert_eq!(
        (judged.decisions, judged.near_ties, judged.fault),
        (0, 0, None)
    );
}

/// One token that writes nothing and decays nothing, onto a state `x`: the state after it and what it read, both forms.
fn kept<R: Real>(backbone: Backbone, x: R) -> [[R; 2]; 2] {
    let config = Config::new(backbone);
    let (zero, one) = ([R::ZERO], [R::ONE]);
    let inputs = Inputs {
        q: &one,
        k: &zero,
        v: &zero,
        g: Some(&zero),
        beta: (backbone == Backbone::Delta).then_some(&one),
        lambda: &one,
        tau: &[R::INFINITY],
        lengths: None,
        replay: None,
    };
    let cache = Cache {
        states: vec![x],
        n: vec![1],
        info: vec![R::ZERO],
    };
    let after = |output: Output<R>| [output.cache.states[0], output.o[0]];
    [
        recurrent::forward(&dims(1), &config, &inputs, Some(&cache)),
        chunk::forward(&dims(1), &config, &inputs, Some(&cache), 16),
    ]
    .map(|output| after(output.expect("a valid case")))
}

#[test]
fn kind_71_a_state_counts_as_zero_below_the_documented_threshold_only() {
    let threshold = 2f32.powi(-100);
    assert_eq!(f32::NEGLIGIBLE, threshold);
    for backbone in [Backbone::Decay, Backbone::Delta] {
        for sign in [1.0, -1.0] {
            for x in [threshold, threshold.next_up(), 1.5 * threshold] {
                let x = sign * x;
                assert_eq!(kept(backbone, x), [[x; 2]; 2], "{backbone}, {x:e}");
            }
            for x in [threshold.next_down(), 0.5 * threshold, f32::MIN_POSITIVE] {
                let x = sign * x;
                assert_eq!(kept(backbone, x), [[0.0; 2]; 2], "{backbone}, {x:e}");
            }
        }
        // Double precision neglects nothing.
        for x in [f64::from(threshold) / 2.0, 1e-300, 5e-324] {
            assert_eq!(kept(backbone, x), [[x; 2]; 2], "{backbone}, {x:e} in f64");
        }
        assert!(
            kept(backbone, f32::NAN)
                .as_flattened()
                .iter()
                .all(|x| x.is_nan())
        );
    }
}
