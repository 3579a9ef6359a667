//! The sampler: its filters by hand, its distribution, its laws, its refusals.

use dla_core::sample::{Candidates, MOST_TOP, Needs, Sampler, SamplerOptions, largest};
use dla_core::session::{seal, unseal};
use proptest::prelude::*;

fn sampler(options: SamplerOptions) -> Sampler {
    Sampler::new(options).expect("options within their ranges")
}

/// How often each id is picked in `draws` draws.
fn counts(sampler: &mut Sampler, row: &[f32], draws: usize) -> Vec<u32> {
    let mut counts = vec![0; row.len()];
    for _ in 0..draws {
        let id = sampler
            .sample(&Candidates::Row(row))
            .expect("finite logits");
        counts[id as usize] += 1;
    }
    counts
}

/// The ids that are ever picked.
fn picked(options: SamplerOptions, accepted: &[u32], row: &[f32]) -> Vec<usize> {
    let mut sampler = sampler(options);
    for &id in accepted {
        sampler.accept(id);
    }
    let counts = counts(&mut sampler, row, 2000);
    (0..row.len()).filter(|&id| counts[id] > 0).collect()
}

/// Probabilities 0.5, 0.25, 0.125, 0.0625, 0.0625, not in order of id.
fn halves() -> [f32; 5] {
    [0.125f32, 0.5, 0.0625, 0.25, 0.0625].map(f32::ln)
}

#[test]
fn draws_follow_the_probabilities() {
    // Chi-square with 4 degrees of freedom exceeds 18.5 once in a thousand times.
    let expected = |temperature: f32| -> Vec<f64> {
        let powers = halves().map(|x| f64::from(x / temperature).exp());
        let sum: f64 = powers.iter().sum();
        powers.iter().map(|power| power / sum).collect()
    };
    for (temperature, top_p) in [(1.0, 1.0), (2.0, 1.0), (0.7, 0.9999999)] {
        let mut sampler = sampler(SamplerOptions {
            temperature,
            top_p,
            seed: 7,
            ..Default::default()
        });
        let draws = 20_000;
        let counts = counts(&mut sampler, &halves(), draws);
        let pairs = counts.iter().zip(expected(temperature));
        let chi: f64 = pairs
            .map(|(&count, p)| {
                let mean = p * draws as f64;
                (f64::from(count) - mean).powi(2) / mean
            })
            .sum();
        assert!(chi < 18.5, "temperature {temperature}: {chi}, {counts:?}");
    }
}

#[test]
fn each_filter_keeps_what_was_computed_by_hand() {
    let with = |change: fn(&mut SamplerOptions)| {
        let mut options = SamplerOptions::default();
        change(&mut options);
        picked(options, &[], &halves())
    };
    assert_eq!(with(|_| ()), [0, 1, 2, 3, 4]);
    assert_eq!(with(|o| o.top_k = 2), [1, 3]);
    assert_eq!(
        with(|o| o.top_k = 4),
        [0, 1, 2, 3],
        "of 2 and 4 the smaller id"
    );
    // 0.5 + 0.25 = 0.75 reaches 0.7 and not 0.8.
    assert_eq!(with(|o| o.top_p = 0.7), [1, 3]);
    assert_eq!(with(|o| o.top_p = 0.8), [0, 1, 3]);
    assert_eq!(with(|o| o.top_p = 1e-6), [1]);
    // 0.2 · 0.5 = 0.1 lies between 0.0625 and 0.125.
    assert_eq!(with(|o| o.min_p = 0.2), [0, 1, 3]);
    assert_eq!(with(|o| o.min_p = 1.0), [1]);
    // Top-k first: 0.5 of the two left is 0.667, so top-p of 0.6 keeps one.
    let both = |o: &mut SamplerOptions| (o.top_k, o.top_p) = (2, 0.6);
    assert_eq!(with(both), [1]);
    // At temperature 0.5 the probabilities are in proportion 64, 16, 4, 1, 1: 64 of 86 reach 0.7.
    let cold = |o: &mut SamplerOptions| (o.temperature, o.top_p) = (0.5, 0.7);
    assert_eq!(with(cold), [1]);
}

/// Equal logits have equal weights, so a sum of them lies exactly at p.
#[test]
fn kind_73_filters_at_equality_keep_what_is_documented() {
    let with = |change: &dyn Fn(&mut SamplerOptions), row: &[f32]| {
        let mut options = SamplerOptions::default();
        change(&mut options);
        picked(options, &[], row)
    };
    let row = [1.5f32; 4];
    for (top_p, kept) in [(0.25, 1), (0.5, 2), (0.75, 3), (1.0, 4)] {
        let want: Vec<usize> = (0..kept).collect();
        assert_eq!(with(&|o| o.top_p = top_p, &row), want, "{top_p} is reached");
        let above = f32::from_bits(top_p.to_bits() + 1).min(1.0);
        let want: Vec<usize> = (0..(kept + 1).min(4)).collect();
        assert_eq!(with(&|o| o.top_p = above, &row), want, "{above} is not");
    }
    // As probable as min_p times the largest is probable enough; what is masked never is.
    assert_eq!(with(&|o| o.min_p = 1.0, &row), [0, 1, 2, 3]);
    let masked = [f32::NEG_INFINITY, 1.5, 1.5, f32::NEG_INFINITY];
    assert_eq!(with(&|o| o.min_p = 1.0, &masked), [1, 2]);
    assert_eq!(with(&|_| (), &masked), [1, 2]);
    // Of equal logits top-k keeps the smaller ids, whatever k.
    for k in 1..=4 {
        let want: Vec<usize> = (0..k).collect();
        assert_eq!(with(&|o| o.top_k = k, &row), want, "top-k of {k}");
    }
}

#[test]
fn the_penalty_lowers_what_is_in_the_window() {
    let row = [2.0, 3.0, -1.0, -1.5];
    let greedy = |penalty, window, accepted: &[u32]| {
        let mut sampler = sampler(SamplerOptions {
            repetition_penalty: penalty,
            repetition_window: window,
            ..SamplerOptions::greedy()
        });
        accepted.iter().for_each(|&id| sampler.accept(id));
        sampler.sample(&Candidates::Row(&row)).expect("finite")
    };
    assert_eq!(greedy(1.0, 4, &[1]), 1);
    assert_eq!(greedy(1.4, 4, &[1]), 1, "3 / 1.4 > 2");
    assert_eq!(greedy(1.6, 4, &[1]), 0, "3 / 1.6 < 2");
    assert_eq!(greedy(1.4, 4, &[1, 1, 1]), 1, "once for each token");
    assert_eq!(greedy(1.6, 0, &[1]), 1, "no window");
    assert_eq!(greedy(1.6, 2, &[1, 2, 3]), 1, "out of the window");
    assert_eq!(greedy(0.5, 4, &[0]), 0, "2 / 0.5 > 3");
    // Negative logits are multiplied: −1 · 2 falls below −1.5.
    let negative = [-1.0, -1.5];
    let options = SamplerOptions {
        repetition_penalty: 2.0,
        ..SamplerOptions::greedy()
    };
    let mut sampler = sampler(options);
    sampler.accept(0);
    let pick = sampler.sample(&Candidates::Row(&negative));
    assert_eq!(pick.expect("finite"), 1);
}

#[test]
fn greedy_takes_the_largest_and_of_equal_ones_the_smaller_id() {
    let mut greedy = sampler(SamplerOptions::greedy());
    let before = greedy.clone();
    for (row, want) in [
        (&[1.0, 5.0, 5.0][..], 1),
        (&[-0.0, 0.0], 0),
        (&[f32::NEG_INFINITY, -3e38], 1),
        (&[7.0], 0),
    ] {
        assert_eq!(greedy.sample(&Candidates::Row(row)), Ok(want), "{row:?}");
    }
    assert_eq!(greedy, before, "greedy takes no random number");
}

#[test]
fn needs_tell_what_is_exact() {
    let needs = |change: fn(&mut SamplerOptions)| {
        let mut options = SamplerOptions::default();
        change(&mut options);
        sampler(options).needs()
    };
    assert_eq!(needs(|_| ()), Needs::All);
    assert_eq!(needs(|o| o.temperature = 0.0), Needs::Top(1));
    assert_eq!(needs(|o| o.top_k = MOST_TOP), Needs::Top(MOST_TOP));
    assert_eq!(needs(|o| o.top_k = MOST_TOP + 1), Needs::All);
    assert_eq!(
        needs(|o| (o.temperature, o.repetition_penalty) = (0.0, 1.1)),
        Needs::All
    );
    assert_eq!(
        needs(|o| (o.top_k, o.repetition_penalty) = (4, 1.1)),
        Needs::All
    );
}

#[test]
fn nonsense_is_refused() {
    type Change = fn(&mut SamplerOptions);
    let options: [(&str, Change); 9] = [
        ("temperature", |o| o.temperature = -0.1),
        ("temperature", |o| o.temperature = f32::NAN),
        ("temperature", |o| o.temperature = f32::INFINITY),
        ("top_p", |o| o.top_p = 0.0),
        ("top_p", |o| o.top_p = f32::NAN),
        ("top_p", |o| o.top_p = 1.1),
        ("min_p", |o| o.min_p = -0.1),
        ("repetition_penalty", |o| o.repetition_penalty = 0.0),
        ("repetition_penalty", |o| o.repetition_penalty = f32::NAN),
    ];
    for (argument, change) in options {
        let mut options = SamplerOptions::default();
        change(&mut options);
        let error = Sampler::new(options).expect_err(argument);
        assert!(error.is_input() && error.argument() == argument, "{error}");
    }
}

#[test]
fn logits_that_decide_nothing_are_refused_and_change_nothing() {
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    let top = |vocabulary, largest| Candidates::Top {
        vocabulary,
        largest,
    };
    let (with_nan, masked) = ([(3, 2.0), (1, nan)], [(3, -inf), (4, -inf)]);
    let wrong = [
        Candidates::Row(&[]),
        Candidates::Row(&[1.0, nan, 3.0, 2.0]),
        Candidates::Row(&[1.0, inf]),
        Candidates::Row(&[-inf, -inf]),
        top(9, &[(3, 2.0)]),
        top(9, &with_nan),
        top(9, &[(3, 2.0), (1, 3.0)]),
        top(9, &[(3, 2.0), (1, 2.0)]),
        top(9, &[(3, 2.0), (3, 2.0)]),
        top(3, &[(3, 2.0), (1, 1.0)]),
        top(9, &masked),
        top(0, &[]),
    ];
    for temperature in [0.0, 1.0] {
        let options = SamplerOptions {
            top_k: 2,
            temperature,
            ..Default::default()
        };
        let mut sampler = sampler(options);
        let before = sampler.clone();
        // What a model that has diverged gives is told apart from a caller's mistake.
        let no_numbers = |candidates: &Candidates<'_>| match candidates {
            Candidates::Row(logits) => logits.iter().any(|x| x.is_nan() || *x == inf),
            Candidates::Top { largest, .. } => largest.iter().any(|(_, x)| x.is_nan()),
        };
        let asked = if temperature > 0.0 { wrong.len() } else { 4 };
        for candidates in &wrong[..asked] {
            let error = sampler.sample(candidates).expect_err("no decision");
            let diverged = no_numbers(candidates);
            let told = [error.is_diverged(), error.is_input()];
            assert_eq!(told, [diverged, !diverged], "{candidates:?}: {error}");
        }
        assert_eq!(sampler, before);
    }
    let mut all = sampler(SamplerOptions::default());
    assert!(all.sample(&top(1, &[(0, 1.0)])).is_err(), "all are needed");
    let penalised = SamplerOptions {
        repetition_penalty: 1.5,
        ..Default::default()
    };
    let mut sampler = sampler(penalised);
    sampler.accept(2);
    let error = sampler.sample(&Candidates::Row(&[1.0, 2.0]));
    assert_eq!(error.expect_err("no such id").argument(), "accepted tokens");
}

#[test]
fn the_first_picks_of_a_seed_stay_what_they_are() {
    // A change here changes what users get for their seeds.
    let mut sampler = sampler(SamplerOptions {
        seed: 42,
        ..Default::default()
    });
    let row: Vec<f32> = (0..16).map(|i| (i * 7 % 16) as f32 * 0.25).collect();
    let picks: Vec<u32> = (0..12)
        .map(|_| sampler.sample(&Candidates::Row(&row)).expect("finite"))
        .collect();
    assert_eq!(picks, [9, 1, 11, 11, 15, 15, 13, 9, 8, 4, 9, 10]);
}

#[test]
fn saved_bytes_of_any_other_form_are_refused() {
    let mut sampler = sampler(SamplerOptions {
        repetition_penalty: 1.2,
        repetition_window: 3,
        ..Default::default()
    });
    (0..5).for_each(|id| sampler.accept(id));
    let saved = sampler.save();
    assert_eq!(Sampler::load(&saved).expect("saved"), sampler);
    for len in 0..saved.len() {
        let error = Sampler::load(&saved[..len]).expect_err("cut");
        assert!(error.is_file(), "{len}: {error}");
    }
    assert!(Sampler::load(&[&saved[..], &[0; 4]].concat()).is_err());
    // Magic, version, the signs of temperature and top_p, an even increment, too many tokens.
    for (at, bit) in [(0, 1), (4, 2), (11, 0x80), (15, 0x80), (64, 1), (32, 1)] {
        let mut changed = unseal("sampler", &saved).expect("saved").to_vec();
        changed[at] ^= bit;
        let error = Sampler::load(&seal(changed)).expect_err("other options");
        assert_ne!(error.argument(), "checksum", "byte {at} changed");
    }
}

#[test]
fn kind_47_changed_bytes_of_a_saved_sampler_are_refused() {
    let saved = sampler(SamplerOptions::default()).save();
    for at in 0..saved.len() {
        let mut changed = saved.clone();
        changed[at] ^= 1 << (at % 8);
        let error = Sampler::load(&changed).expect_err("a flipped bit");
        assert!(error.is_file(), "byte {at}: {error}");
    }
}

fn options() -> impl Strategy<Value = SamplerOptions> {
    let temperature = prop_oneof![Just(0.0f32), 0.05f32..3.0];
    let top_p = prop_oneof![Just(1.0f32), 0.05f32..1.0];
    let min_p = prop_oneof![Just(0.0f32), 0.0f32..1.0];
    let penalty = prop_oneof![Just(1.0f32), 0.5f32..2.0];
    let sizes = (0usize..40, 0usize..6);
    (temperature, sizes, top_p, min_p, penalty, any::<u64>()).prop_map(
        |(temperature, (top_k, repetition_window), top_p, min_p, repetition_penalty, seed)| {
            SamplerOptions {
                temperature,
                top_k,
                top_p,
                min_p,
                repetition_penalty,
                repetition_window,
                seed,
            }
        },
    )
}

/// Logits with many ties and masked tokens, at least one of them free.
fn row() -> impl Strategy<Value = Vec<f32>> {
    let logit = prop_oneof![
        4 => (-6i32..6).prop_map(|x| x as f32 * 0.5),
        2 => -20.0f32..20.0,
        1 => Just(f32::NEG_INFINITY),
    ];
    prop::collection::vec(logit, 1..60).prop_map(|mut row| {
        row[0] = row[0].max(-30.0);
        row
    })
}

proptest! {
    /// What a device sends of the logits is enough.
    #[test]
    fn the_largest_logits_give_the_same_picks_as_all(options in options(), rows in prop::collection::vec(row(), 1..8)) {
        let options = SamplerOptions { repetition_penalty: 1.0, ..options };
        let (mut of_all, mut of_top) = (sampler(options), sampler(options));
        if let Needs::Top(k) = of_top.needs() {
            for row in &rows {
                let top = largest(row, k).expect("no NaN");
                let top = Candidates::Top { vocabulary: row.len(), largest: &top };
                prop_assert_eq!(of_all.sample(&Candidates::Row(row)), of_top.sample(&top));
            }
            prop_assert_eq!(of_all, of_top);
        }
    }

    /// Saved and restored it picks as if never stopped; the pick is a token that is not masked.
    #[test]
    fn restored_samplers_continue(options in options(), rows in prop::collection::vec(row(), 2..8), stop in 0usize..8) {
        let mut whole = sampler(options);
        let mut halves = sampler(options);
        for (at, row) in rows.iter().enumerate() {
            if at == stop {
                halves = Sampler::load(&halves.save()).expect("saved");
            }
            let id = whole.sample(&Candidates::Row(row));
            prop_assert_eq!(&id, &halves.sample(&Candidates::Row(row)));
            if let Ok(id) = id {
                prop_assert!(row[id as usize] > f32::NEG_INFINITY);
                whole.accept(id);
                halves.accept(id);
            }
        }
        prop_assert_eq!(whole, halves);
    }

    /// What top-k removes is never picked.
    #[test]
    fn picks_lie_within_top_k(options in options(), row in row()) {
        let k = if options.temperature == 0.0 { 1 } else { options.top_k };
        prop_assume!(k > 0 && options.repetition_penalty == 1.0);
        let top = largest(&row, k).expect("no NaN");
        let id = sampler(options).sample(&Candidates::Row(&row)).expect("one is free");
        prop_assert!(top.iter().any(|&(kept, _)| kept == id));
    }

    #[test]
    fn the_largest_are_a_sorted_row_cut_off(row in row(), k in 0usize..70) {
        let mut want: Vec<(u32, f32)> = (0..).zip(row.iter().copied()).collect();
        want.sort_by(|a, b| b.1.total_cmp(&(a.1 + 0.0)).then(a.0.cmp(&b.0)));
        want.truncate(k);
        prop_assert_eq!(largest(&row, k).expect("no NaN"), want);
    }
}
