//! Training of Dynamic Linear Attention models: everything around the step itself.
//!
//! A [`task`] makes batches, an [`Engine`] learns from them, and a [`Run`] ties them together: rates,
//! evaluation, metrics, checkpoints. Batches are a pure function of the seed and the step, so a run that
//! is stopped goes on where it was, bit for bit on one machine.

#![forbid(unsafe_code)]

pub mod atomic;
pub mod batch;
pub mod cpu;
pub mod curve;
pub mod device;
pub mod engine;
pub mod eval;
mod loss_scale;
pub mod metrics;
mod random;
mod resume;
pub mod run;
pub mod scores;
pub mod settings;
pub mod store;
pub mod task;

pub use batch::{Batch, Example};
pub use cpu::CpuEngine;
pub use device::DeviceEngine;
pub use engine::{Engine, Pace, Scores, Snapshot, StepReport};
pub use loss_scale::LossScale;
pub use random::Random;
pub use run::{Outcome, Run, Start, Watcher};
pub use scores::{Reader, Totals};
pub use settings::{ComputeSettings, LossScaling, Precision, Settings};
