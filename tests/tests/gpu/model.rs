//! The model on the device beside the model in plain Rust.

#[path = "model/attention.rs"]
mod attention;
#[path = "model/equal.rs"]
mod equal;
#[path = "model/finite.rs"]
mod finite;
#[path = "model/sequences.rs"]
mod sequences;
#[path = "model/support.rs"]
mod support;
