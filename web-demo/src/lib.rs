//! Dynamic Linear Attention in a browser page.
//!
//! [`Model`] and [`Session`] are what the package's JavaScript (`index.js`) calls: a model on the
//! browser's GPU or on the CPU, and a sequence of it. Calls answer with promises; while one waits nothing
//! is borrowed, so a call that comes too early is refused instead of trapping.
//!
//! [`Operator`] keeps one sequence of the bare operator and takes in its tokens piece by piece.

mod fault;
mod generation;
mod incoming;
mod loaded;
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
