//! The bare operator on the device.

mod backward;
mod binding;
pub(crate) mod event;
mod operator;
mod options;
pub(crate) mod pack;
mod passes;
mod run;

#[cfg(not(target_arch = "wasm32"))]
pub use backward::gradients;
pub use backward::{
    Backward, BoundBackward, GradientArrays, Loss, gradient_passes, gradients_async,
};
pub use operator::{Arrays, Bound, DeviceCache, Operator};
pub use options::{Decider, Options, Path, Walk};
pub use pack::events;
pub use passes::passes;
#[cfg(not(target_arch = "wasm32"))]
pub use run::run;
pub use run::run_async;
