//! Every GPU test, in one binary that shares a device.

#[path = "gpu/golden.rs"]
mod golden;
#[path = "gpu/gradients.rs"]
mod gradients;
#[path = "gpu/host.rs"]
mod host;
#[path = "gpu/kinds.rs"]
mod kinds;
#[path = "gpu/operator.rs"]
mod operator;
#[path = "gpu/stages.rs"]
mod stages;
