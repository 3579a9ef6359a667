//! The bare operator on the device.

mod operator;
mod pack;
#[cfg(not(target_arch = "wasm32"))]
mod run;

pub use operator::{Arrays, Bound, Decider, DeviceCache, Operator, Options, Path};
#[cfg(not(target_arch = "wasm32"))]
pub use run::run;
