//! Training of Dynamic Linear Attention models: everything around the step itself.
//!
//! A [`task`] makes batches, an [`Engine`] learns from them, and [`run`](mod@run) ties them together:
//! rates, evaluation, metrics, checkpoints. Batches are a pure function of the seed and the step, so a
//! run that is stopped goes on where it was, bit for bit on one machine.

#![forbid(unsafe_code)]

pub mod batch;
mod random;
pub mod task;

pub use batch::{Batch, Example};
pub use random::Random;
