//! The bare operator on the device.

mod operator;
mod options;
mod pack;
mod passes;
mod run;

pub use operator::{Arrays, Bound, DeviceCache, Operator};
pub use options::{Decider, Options, Path, Walk};
pub use passes::passes;
#[cfg(not(target_arch = "wasm32"))]
pub use run::run;
pub use run::run_async;
