//! The decay of states between tokens, against its formula.

use dla_core::Result;
use dla_core::model::{ModelConfig, Rows, Weights};
use dla_core::{Cache, Model};

use crate::support::*;

/// Δ = softplus(−2) for every token, and A = −0.05 (head + 1); the rest is random.
struct KnownDecay {
    rest: RandomWeights,
    heads: usize,
}

impl Weights for KnownDecay {
    type Tensor = Vec<f32>;

    fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let mut values = self.rest.tensor(name, shape)?;
        if name.ends_with("A_log") {
            values = (0..self.heads).map(|head| rate(head).ln() as f32).collect();
        } else if name.ends_with("dt_bias") {
            values.fill(-2.0);
        } else if name.ends_with("a_proj.weight") || name.ends_with("b_proj.weight") {
            values.fill(0.0);
        } else if name.ends_with("in_proj.weight") {
            // The last rows are Mamba-2's Δ.
            let first = values.len() - self.heads * shape[1];
            values[first..].fill(0.0);
        }
        Ok(values)
    }
}

/// −A.
fn rate(head: usize) -> f64 {
    0.05 * (head + 1) as f64
}

/// g of every token.
fn log_decay(head: usize) -> f64 {
    -rate(head) * (-2f64).exp().ln_1p()
}

/// The states of the first layer after each of these numbers of equal tokens.
fn states_after(config: &ModelConfig, tokens: [usize; 3]) -> [Cache<f32>; 3] {
    let heads = config.dims().heads;
    let mut weights = KnownDecay {
        rest: RandomWeights::default(),
        heads,
    };
    let model = Model::build(config, &mut weights).expect("weights for everything");
    let mut session = model.session();
    let mut before = 0;
    tokens.map(|tokens| {
        let ids = vec![5; tokens - before];
        model
            .prefill(&mut session, &ids, Rows::Last)
            .expect("valid ids");
        before = tokens;
        session.cache(0).expect("a layer").clone()
    })
}

/// Equal tokens write equal contributions once the convolution is full, so a state's changes shrink by the decay:
/// ‖S_c − S_b‖ / ‖S_b − S_a‖ = factor for equally spaced a, b, c.
fn assert_shrinks(config: &ModelConfig, tokens: [usize; 3], factor: impl Fn(usize) -> f64) {
    let states = states_after(config, tokens).map(|cache| cache.states);
    let size = states[0].len() / config.dims().heads;
    for head in 0..config.dims().heads {
        let change = |from: usize, to: usize| -> f64 {
            let [from, to] = [from, to].map(|i| &states[i][head * size..(head + 1) * size]);
            let changes = from.iter().zip(to);
            let square = changes.map(|(a, b)| (f64::from(*b) - f64::from(*a)).powi(2));
            square.sum::<f64>().sqrt()
        };
        let (got, expected) = (change(1, 2) / change(0, 1), factor(head));
        let off = (got - expected).abs() / expected;
        assert!(off < 1e-3, "head {head}: {got} for {expected}");
    }
}

/// g = −e^{A_log} Δ, the exponential and the sign taken once: what only long prompts would show.
#[test]
fn kind_08_the_decay_is_that_of_a_log() {
    assert_shrinks(&mamba2().0, [100, 150, 200], |head| {
        (50.0 * log_decay(head)).exp()
    });
    // With β = ½ the delta rule soon settles along the key; what the first tokens wrote beside it only decays.
    assert_shrinks(&gated_delta().0, [30, 50, 70], |head| {
        (20.0 * log_decay(head)).exp()
    });
}
