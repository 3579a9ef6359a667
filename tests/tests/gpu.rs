//! Every GPU test, in one binary that shares a device.

#[path = "gpu/operator.rs"]
mod operator;
