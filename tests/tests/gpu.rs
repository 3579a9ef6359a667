//! Every GPU test, in one binary that shares a device.

#[path = "gpu/kinds.rs"]
mod kinds;
#[path = "gpu/operator.rs"]
mod operator;
