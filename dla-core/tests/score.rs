//! The score's two forms, and its edges.

mod common;

use common::generate::Random;
use dla_core::dla::score::{CAP, Products, Score};
use dla_core::vector::{dot, square_norm};
use dla_core::{Backbone, Config, Dims, Norm};
use proptest::prelude::*;

const DIMS: Dims = Dims {
    batch: 1,
    tokens: 1,
    heads: 1,
    groups: 1,
    key_dim: 3,
    value_dim: 4,
    capacity: 1,
};

fn score(norm: Norm, epsilon: f64) -> Score<f64> {
    let config = Config {
        norm,
        epsilon,
        ..Config::new(Backbone::Plain)
    };
    Score::new(&DIMS, &config)
}

fn products(s: &[f64], state: &[f64]) -> Products<f64> {
    Products {
        ss: square_norm(s),
        state: square_norm(state),
        cross: dot(s, state),
    }
}

proptest! {
    #[test]
    fn both_forms_agree(seed: u64, size in 1e-3..1e3f64, near in 0.0..1.0f64, plain: bool, epsilon in 0.0..1e-3f64) {
        let mut random = Random(seed);
        let state = random.normals(12);
        let s: Vec<f64> = state.iter().map(|x| size * (near * x + (1.0 - near) * random.normal())).collect();
        let score = score(if plain { Norm::None } else { Norm::Rms }, epsilon);
        let (exact, scalar) = (score.of_matrices(&s, &state), score.of_products(products(&s, &state)));
        prop_assert!((exact - scalar).abs() <= 1e-6 * (1.0 + exact), "{} {}", exact, scalar);
    }

    #[test]
    fn scale_does_not_matter_under_rms(seed: u64, sizes in (1e-2..1e2f64, 1e-2..1e2f64)) {
        let mut random = Random(seed);
        let (s, state) = (random.normals(12), random.normals(12));
        let scaled = |x: &[f64], by: f64| x.iter().map(|x| x * by).collect::<Vec<_>>();
        let score = score(Norm::Rms, 1e-12);
        let expected = score.of_matrices(&s, &state);
        let got = score.of_matrices(&scaled(&s, sizes.0), &scaled(&state, sizes.1));
        prop_assert!((got - expected).abs() < 1e-6);
    }
}

#[test]
fn an_erased_state_scores_the_cap_under_rms_only() {
    let s = [1.0; 12];
    for state in [[0.0; 12], [1e-12; 12]] {
        let products = products(&s, &state);
        let rms = score(Norm::Rms, 1e-12);
        assert_eq!(
            [rms.of_matrices(&s, &state), rms.of_products(products)],
            [CAP; 2]
        );
        let plain = score(Norm::None, 1e-12);
        assert!(plain.of_matrices(&s, &state) > 1e9);
        assert!(plain.of_products(products) > 1e9);
    }
}

#[test]
fn rounding_below_zero_counts_as_zero() {
    let negative = Products {
        ss: 1.0,
        state: -1e-20,
        cross: 0.0,
    };
    assert_eq!(score(Norm::Rms, 1e-12).of_products(negative), CAP);
    let equal = Products {
        ss: 1.0,
        state: 1.0,
        cross: 1.0 + 1e-15,
    };
    assert_eq!(score(Norm::None, 0.0).of_products(equal), 0.0);
    let opposite = Products {
        ss: 1.0,
        state: 1.0,
        cross: -1.0 - 1e-15,
    };
    assert_eq!(opposite.joined(), 0.0);
}

#[test]
fn what_is_not_finite_stays_so() {
    let ones = [1.0; 12];
    for value in [f64::NAN, f64::INFINITY] {
        let mut other = ones;
        other[5] = value;
        for norm in [Norm::Rms, Norm::None] {
            let score = score(norm, 1e-12);
            for (s, state) in [(&ones, &other), (&other, &ones)] {
                assert!(!score.of_matrices(s, state).is_finite());
                assert!(!score.of_products(products(s, state)).is_finite());
            }
        }
    }
    assert!(
        !score(Norm::Rms, 0.0)
            .of_matrices(&ones, &[0.0; 12])
            .is_finite()
    );
}
