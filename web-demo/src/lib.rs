//! Dynamic Linear Attention in a browser page.
//!
//! [`Model`] and [`Session`] are what the package's JavaScript (`index.js`) calls: a model on the
//! browser's GPU or on the CPU, and a sequence of it. Calls answer with promises; while one waits nothing
//! is borrowed, so a call that comes too early is refused instead of trapping.
//!
//! [`Operator`] keeps one sequence of the bare operator and takes in its tokens piece by piece:
//!
//! ```js
//! const sizes = new Sizes(2, 1, 16, 16, 5); // heads, groups, key and value width, states
//! const operator = new Operator("decay", sizes, new Float32Array([0.8, 0.8]));
//! const step = operator.feed(q, k, v, lambda, g);
//! console.log(step.o, step.boundary, step.mergeAt);
//! ```

mod fault;
mod generation;
mod incoming;
mod model;
mod object;
mod operator;
mod saved;
mod sequence;
mod session;
mod settings;

pub use generation::Generation;
pub use incoming::Incoming;
pub use model::Model;
pub use operator::{Operator, Sizes, Step};
pub use session::Session;

use wasm_bindgen::prelude::wasm_bindgen;

/// The version of this package.
#[wasm_bindgen]
pub fn version() -> String {
    env!("CARGO_PKG_VERSION").into()
}
