//! Dynamic Linear Attention in plain Rust: what every number means.
//!
//! A linear-attention layer that keeps a small, time-ordered cache of memory states instead of one.
//! Each token's information score against the newest state decides whether it joins that state or
//! opens a new one; a full cache merges its least informative adjacent pair; a query reads all
//! states with its own weights.
//!
//! This crate is the reference: it runs at `f32` and `f64`, needs no GPU and builds for the
//! browser. The maths is told once in `docs/algorithm.md`; the names there are the names here.

#![forbid(unsafe_code)]

pub mod backbone;
pub mod cache;
mod check;
#[cfg(feature = "checkpoint")]
pub mod checkpoint;
pub mod config;
pub mod decisions;
pub mod dims;
pub mod dla;
pub mod error;
pub mod inputs;
pub mod model;
pub mod nn;
mod parallel;
pub mod real;
pub mod sample;
pub mod session;
#[cfg(feature = "checkpoint")]
pub mod tensors;
pub mod trace;
pub mod vector;

pub use cache::Cache;
pub use config::{Backbone, Config, MergeCost, Norm, Schedule};
pub use decisions::{Decision, Decisions, Trace};
pub use dims::Dims;
pub use error::{Error, Result};
pub use inputs::{Inputs, Output};
pub use model::{Model, ModelSession};
pub use real::Real;
pub use session::Session;
