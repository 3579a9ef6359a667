//! The backward pass of the operator on the device (`docs/algorithm.md` §11).
//!
//! A merge cannot be undone, so the states of a segment are computed again from the states that it began with, by the
//! same passes under the same decisions; then its gradients, the last segment first.

mod passes;
mod recorder;
mod run;
mod snapshot;
mod unpack;

pub use passes::gradient_passes;
pub use recorder::{Backward, BoundBackward, GradientArrays};
#[cfg(not(target_arch = "wasm32"))]
pub use run::gradients;
pub use run::{Loss, gradients_async};
