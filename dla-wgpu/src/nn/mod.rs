//! The layers around the operator on the device, each the twin of a layer of `dla_core::nn` or of a mixer's parts.
//!
//! A layer's `prepare` checks sizes, compiles and binds once; the [`Dispatch`]es that it returns are recorded as often
//! as wanted. Activations are f32, row by row; row b·T + t is token t of batch item b.

mod arrays;
mod attention;
pub mod backward;
mod constants;
mod conv;
mod embedding;
mod layer;
mod linear;
mod matrix;
mod norm;
mod output;
mod pack;
mod top_k;

pub use arrays::{
    DeltaArrays, DeltaArraysSpec, Mamba2Arrays, Mamba2ArraysSpec, ReadColumns, Sources,
};
pub use attention::{AttentionScratch, AttentionSpec, CachedAttention};
pub use conv::{Conv, ConvSpec};
pub use embedding::{Embedding, EmbeddingSpec};
pub use layer::{Rows, buffer, uniform, vector};
pub use linear::{Input, InputKind, Linear, LinearSpec};
pub use matrix::{Matrix, WeightType};
pub use norm::{RmsNorm, RmsNormSpec};
pub use output::{DeltaOutput, DeltaOutputSpec, Mamba2Output, Mamba2OutputSpec};
pub use top_k::{Best, MAX_BEST, TopK};

#[cfg(doc)]
use crate::Dispatch;
