//! Models whose weights are no finite numbers: a text that reaches such a weight is refused while it is read.

use dla_core::model::{Call, ModelConfig, Rows};
use dla_core::{Model, Result};

use crate::support::{RandomWeights, attention, dynamic, gated_delta, ids, mamba2};

/// Random weights, but those of tensor `name`.
#[derive(Debug)]
struct Spoilt<'a> {
    weights: RandomWeights,
    name: &'a str,
    value: f32,
}

impl dla_core::model::Weights for Spoilt<'_> {
    type Tensor = Vec<f32>;

    fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let mut values = self.weights.tensor(name, shape)?;
        if name == self.name {
            values.fill(self.value);
        }
        Ok(values)
    }
}

/// The names of a model's tensors.
fn names(config: &ModelConfig) -> Vec<String> {
    let mut weights = RandomWeights::default();
    Model::build(config, &mut weights).expect("weights for everything");
    weights.tensors.into_iter().map(|(name, ..)| name).collect()
}

#[test]
fn kind_65_weights_that_are_not_finite_end_a_reading() {
    let configs = [mamba2().0, gated_delta().0].map(|plain| dynamic(plain, 4));
    for config in configs.into_iter().chain([attention()]) {
        for name in names(&config) {
            let weights = RandomWeights::default();
            let (name, value) = (&*name, f32::NAN);
            let mut source = Spoilt {
                weights,
                name,
                value,
            };
            let model = match Model::build(&config, &mut source) {
                Ok(model) => model,
                Err(error) => {
                    // A threshold is compared and would hide it.
                    assert!(name.ends_with("tau") && error.is_input(), "{error}");
                    continue;
                }
            };
            let mut session = model.session();
            let fresh = session.clone();
            let last = Call::default();
            let error = model.run(&mut session, &ids(9), &last).expect_err(name);
            assert!(error.is_diverged(), "{name}: {error}");
            assert!(error.to_string().contains("NaN"), "{name}: {error}");
            assert_eq!(session, fresh, "{name}: nothing is taken in");
            let error = model.step(&mut session, 1).expect_err(name);
            assert!(error.is_diverged(), "{name}: {error}");
        }
    }
}

#[test]
fn kind_65_a_reading_without_logits_is_refused_too() {
    let config = dynamic(mamba2().0, 4);
    let name = names(&config)
        .into_iter()
        .find(|name| name.contains("embedding"));
    let name = &*name.expect("embeddings");
    let mut source = Spoilt {
        weights: RandomWeights::default(),
        name,
        value: f32::INFINITY,
    };
    let model = Model::build(&config, &mut source).expect("weights for everything");
    let call = Call {
        logits: Rows::None,
        ..Call::default()
    };
    let error = model.run(&mut model.session(), &ids(9), &call);
    let error = error.expect_err("scores");
    assert!(error.is_diverged(), "{error}");
    assert!(error.op().contains("layer 0"), "{error}");
}
