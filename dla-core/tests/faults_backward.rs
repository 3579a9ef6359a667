//! The same in gradients: faults that users met in libraries like this one.

mod common;

use common::generate::{self, Random};
use common::{Case, assert_close};
use dla_core::dla::backward::{self, Gradients};
use dla_core::dla::gate::Gate;
use dla_core::{Backbone, Config, Dims, Real};

const BACKBONES: [Backbone; 3] = [Backbone::Plain, Backbone::Decay, Backbone::Delta];

/// A case of `tokens` tokens with four heads in two groups, five states.
fn case(backbone: Backbone, batch: usize, tokens: usize) -> Case<f64> {
    let dims = Dims {
        batch,
        tokens,
        heads: 4,
        groups: 2,
        key_dim: 6,
        value_dim: 5,
        capacity: 5,
    };
    generate::case(dims, Config::new(backbone), 0.9, 11)
}

fn drawn(dims: &Dims) -> Vec<f64> {
    Random(3).normals(dims.value_len())
}

fn gradients<R: Real>(case: &Case<R>, d_o: &[R]) -> Gradients<R> {
    let Case { dims, config, .. } = case;
    backward::backward(dims, config, &case.inputs(), None, d_o, &Gate::default())
        .expect("a valid case")
}

/// The gradients by what belongs to tokens.
fn by_token<R>(all: &Gradients<R>) -> Vec<(&'static str, &[R])> {
    let mut arrays = vec![
        ("dq", &all.q[..]),
        ("dk", &all.k[..]),
        ("dv", &all.v[..]),
        ("dlambda", &all.lambda[..]),
    ];
    arrays.extend(all.g.as_deref().map(|g| ("dg", g)));
    arrays.extend(all.beta.as_deref().map(|beta| ("dbeta", beta)));
    arrays
}

#[test]
fn kind_04_gradients_of_unequal_lengths_equal_each_alone() {
    for backbone in BACKBONES {
        let mut case = case(backbone, 3, 70);
        case.lengths = Some(vec![70, 0, 33]);
        let d_o = drawn(&case.dims);
        let whole = gradients(&case, &d_o);
        for b in 0..3 {
            let alone = case.item(b);
            let rows = d_o.len() / 3;
            let own = &d_o[b * rows..][..alone.dims.value_len()];
            let alone = gradients(&alone, own);
            for ((name, whole), (_, alone)) in by_token(&whole).iter().zip(by_token(&alone)) {
                let rows = whole.len() / 3;
                let item = &whole[b * rows..(b + 1) * rows];
                let (live, padding) = item.split_at(alone.len());
                assert_eq!(live, alone, "{backbone}, item {b}: {name}");
                assert!(padding.iter().all(|&x| x == 0.0), "{backbone}: {name}");
            }
        }
    }
}

#[test]
fn kind_09_gradients_under_strong_decay_do_not_overflow() {
    for backbone in [Backbone::Decay, Backbone::Delta] {
        let mut case = case(backbone, 1, 300);
        case.g = Some(vec![-12.0; case.dims.token_heads()]);
        // No threshold is passed, so that both precisions decide alike.
        case.tau.fill(f64::INFINITY);
        let d_o = drawn(&case.dims);
        let narrow: Vec<f32> = d_o.iter().map(|&x| x as f32).collect();
        let (got, expected) = (
            gradients(&case.cast::<f32>(), &narrow),
            gradients(&case, &d_o),
        );
        for ((name, got), (_, expected)) in by_token(&got).iter().zip(by_token(&expected)) {
            assert!(got.iter().all(|x| x.is_finite()), "{backbone}: {name}");
            assert_close(&format!("{backbone}, {name}"), got, expected, 1e-4);
        }
    }
}

/// NaN in an output's gradient reaches every value that the token read, and nothing that comes later.
#[test]
fn kind_33_nan_in_an_outputs_gradient_reaches_all_that_was_read() {
    for backbone in BACKBONES {
        let case = case(backbone, 1, 60);
        let dims = case.dims;
        let (token, column, row) = (40, 2, dims.heads * dims.value_dim);
        let mut d_o = drawn(&dims);
        d_o[token * row + column] = f64::NAN;
        let got = gradients(&case, &d_o);
        for (at, x) in got.v.iter().enumerate() {
            let (t, within) = (at / row, at % row);
            let read = t <= token && within == column;
            assert_eq!(x.is_nan(), read, "{backbone}: dv of token {t}, {within}");
        }
        for (name, values) in by_token(&got) {
            let later = &values[(token + 1) * values.len() / dims.tokens..];
            assert!(later.iter().all(|x| x.is_finite()), "{backbone}: {name}");
        }
    }
}
