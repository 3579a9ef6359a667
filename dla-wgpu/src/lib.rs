//! Dynamic Linear Attention on any GPU that WebGPU reaches.
//!
//! [`Gpu`] holds a device, the host's or one of its own. [`Operator`](op::Operator) is the bare
//! operator for one shape: it plans every dispatch and buffer beforehand, records into a borrowed
//! command encoder and never submits. [`op::run_async`] is the whole journey for arrays in memory.
//! [`nn`] has the layers around it, prepared once as [`Dispatch`]es and recorded many times, and [`model`]
//! whole language models made of them.
//!
//! `wgpu` is re-exported: an application that hands its own device to [`Gpu::from_host`] opens it with
//! `dla_wgpu::wgpu` and needs no dependency of its own, which might be another version.

#![deny(unsafe_op_in_unsafe_fn)]
// In a page wgpu's objects stay on one thread, and so does what shares them.
#![cfg_attr(target_arch = "wasm32", allow(clippy::arc_with_non_send_sync))]

pub mod backward_plan;
mod backward_work;
mod dispatch;
mod gpu;
pub mod model;
pub mod nn;
pub mod op;
mod pipeline;
pub mod plan;
pub mod profile;
mod readback;
mod scope;
mod spec;
mod way;
pub mod work;

pub use wgpu;

pub use dispatch::Dispatch;
pub use gpu::{Gpu, GpuOptions, Variant};
pub use readback::Readback;
pub use spec::{Float, MATRIX_WORKGROUP_BYTES, Spec};
