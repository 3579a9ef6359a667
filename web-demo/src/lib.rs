//! Dynamic Linear Attention in a browser page.
//!
//! [`Operator`] keeps one sequence and takes in its tokens piece by piece, on the reference of
//! `dla-core`:
//!
//! ```js
//! const sizes = new Sizes(2, 1, 16, 16, 5); // heads, groups, key and value width, states
//! const operator = new Operator("decay", sizes, new Float32Array([0.8, 0.8]));
//! const step = operator.feed(q, k, v, lambda, g);
//! console.log(step.o, step.boundary, step.mergeAt);
//! ```

mod operator;

pub use operator::{Operator, Sizes, Step};

use wasm_bindgen::prelude::wasm_bindgen;

/// The version of this package.
#[wasm_bindgen]
pub fn version() -> String {
    env!("CARGO_PKG_VERSION").into()
}
