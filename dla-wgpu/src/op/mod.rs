//! The bare operator on the device.

mod operator;
mod options;
mod pack;
#[cfg(not(target_arch = "wasm32"))]
mod run;

pub use operator::{Arrays, Bound, DeviceCache, Operator};
pub use options::{Decider, Options, Path};
#[cfg(not(target_arch = "wasm32"))]
pub use run::run;
