//! The operator for one sequence, as a page calls it.

use dla_core::{Backbone, Config, Dims, Error, Inputs, Output, Session};
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::fault::Fault;

/// The sizes of an operator.
#[wasm_bindgen]
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    heads: usize,
    groups: usize,
    key_dim: usize,
    value_dim: usize,
    capacity: usize,
}

#[wasm_bindgen]
impl Sizes {
    /// Heads, key groups, key width, value width, states that each head may keep.
    #[wasm_bindgen(constructor)]
    pub fn new(
        heads: usize,
        groups: usize,
        key_dim: usize,
        value_dim: usize,
        capacity: usize,
    ) -> Self {
        Self {
            heads,
            groups,
            key_dim,
            value_dim,
            capacity,
        }
    }

    fn dims(&self) -> Dims {
        let Self {
            heads,
            groups,
            key_dim,
            value_dim,
            capacity,
        } = *self;
        Dims {
            batch: 1,
            tokens: 0,
            heads,
            groups,
            key_dim,
            value_dim,
            capacity,
        }
    }
}

/// A sequence that goes on: fed in pieces, saved, restored, reset.
#[wasm_bindgen]
#[derive(Clone, Debug)]
pub struct Operator {
    session: Session<f32>,
    tau: Vec<f32>,
}

#[wasm_bindgen]
impl Operator {
    /// A sequence before its first token; `backbone` is plain, decay or delta, `tau` the threshold of each head.
    #[wasm_bindgen(constructor)]
    pub fn new(backbone: &str, sizes: &Sizes, tau: Vec<f32>) -> Result<Operator, JsValue> {
        let backbone = backbone.parse::<Backbone>().map_err(Fault::from)?;
        let session = Session::new(sizes.dims(), Config::new(backbone)).map_err(Fault::from)?;
        Ok(Self { session, tau })
    }

    /// Takes in the next tokens: `q`, `k` `[T, groups, key]`, `v` `[T, heads, value]`, `lambda`
    /// `[T, heads, states]`, and `g`, `beta` `[T, heads]` where the backbone has them.
    pub fn feed(
        &mut self,
        q: &[f32],
        k: &[f32],
        v: &[f32],
        lambda: &[f32],
        g: Option<Vec<f32>>,
        beta: Option<Vec<f32>>,
    ) -> Result<Step, JsValue> {
        let inputs = Inputs {
            q,
            k,
            v,
            g: g.as_deref(),
            beta: beta.as_deref(),
            lambda,
            tau: &self.tau,
            lengths: None,
            replay: None,
        };
        let dims = self.session.dims();
        let tokens = lambda.len() / (dims.heads * dims.capacity);
        let output = self.session.feed(tokens, &inputs);
        Ok(Step(output.map_err(Fault::from)?))
    }

    /// The sequence as bytes, the same as on every other backend.
    pub fn save(&self) -> Vec<u8> {
        self.session.save()
    }

    /// Continues where `save` was called; a refusal changes nothing.
    pub fn restore(&mut self, bytes: &[u8]) -> Result<(), JsValue> {
        let session = Session::load(bytes).map_err(Fault::from)?;
        if (session.dims(), session.config()) != (self.session.dims(), self.session.config()) {
            let expected = format!("{:?}, {:?}", self.session.dims(), self.session.config());
            let got = format!("{:?}, {:?}", session.dims(), session.config());
            let error = Error::input("restore", "bytes", expected, got);
            return Err(Fault::from(error).into());
        }
        self.session = session;
        Ok(())
    }

    /// Forgets the sequence.
    pub fn reset(&mut self) {
        self.session.reset();
    }
}

/// What the operator gave back for one piece.
#[wasm_bindgen]
#[derive(Clone, Debug)]
pub struct Step(Output<f32>);

#[wasm_bindgen]
impl Step {
    /// Outputs `[T, heads, value]`.
    #[wasm_bindgen(getter)]
    pub fn o(&self) -> Vec<f32> {
        self.0.o.clone()
    }

    /// Scores `[T, heads]`.
    #[wasm_bindgen(getter)]
    pub fn score(&self) -> Vec<f32> {
        self.0.trace.score.clone()
    }

    /// 1 where a token opened a state, `[T, heads]`.
    #[wasm_bindgen(getter)]
    pub fn boundary(&self) -> Vec<u8> {
        self.0.trace.decisions.boundary.clone()
    }

    /// The older of the two states merged at a token, −1 for none, `[T, heads]`.
    #[wasm_bindgen(getter, js_name = mergeAt)]
    pub fn merge_at(&self) -> Vec<i32> {
        self.0.trace.decisions.merge_at.clone()
    }

    /// Live states after each token, `[T, heads]`.
    #[wasm_bindgen(getter)]
    pub fn count(&self) -> Vec<i32> {
        self.0.trace.count.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::{Operator, Sizes};

    fn operator() -> Operator {
        let Ok(operator) = Operator::new("plain", &Sizes::new(1, 1, 1, 1, 2), vec![0.9]) else {
            panic!("the sizes fit");
        };
        operator
    }

    fn feed(operator: &mut Operator, v: &[f32]) -> (Vec<f32>, Vec<u8>) {
        let ones = vec![1.0; v.len()];
        let Ok(step) = operator.feed(&ones, &ones, v, &vec![1.0; 2 * v.len()], None, None) else {
            panic!("the arrays fit");
        };
        (step.o(), step.boundary())
    }

    #[test]
    fn pieces_give_the_same_as_the_whole() {
        let whole = feed(&mut operator(), &[3.0, -4.0, -5.0]);
        assert_eq!(whole, (vec![3.0, -1.0, -6.0], vec![1, 1, 0]));

        let mut pieces = operator();
        assert_eq!(feed(&mut pieces, &[3.0]).0, whole.0[..1]);
        let saved = pieces.save();
        assert_eq!(feed(&mut pieces, &[-4.0, -5.0]).0, whole.0[1..]);
        assert!(pieces.restore(&saved).is_ok());
        assert_eq!(feed(&mut pieces, &[-4.0, -5.0]).0, whole.0[1..]);
        pieces.reset();
        assert_eq!(feed(&mut pieces, &[3.0, -4.0, -5.0]), whole);
    }
}
