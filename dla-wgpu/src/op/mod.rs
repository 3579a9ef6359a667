//! The bare operator on the device.

pub(crate) mod event;
mod operator;
mod options;
pub(crate) mod pack;
mod passes;
mod run;

pub use operator::{Arrays, Bound, DeviceCache, Operator};
pub use options::{Decider, Options, Path, Walk};
pub use passes::passes;
#[cfg(not(target_arch = "wasm32"))]
pub use run::run;
pub use run::run_async;
