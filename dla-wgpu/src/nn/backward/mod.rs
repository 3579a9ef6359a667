//! The layers backwards: from the gradient of the loss by what a layer gave to those by what it took and by its weights.
//!
//! Gradients are f32, and so are weights but for those of linear maps, which may be in f16 ([`Halve`]). Gradients by weights
//! are added to what their buffers hold, so that several calls add up; a step begins with zeros
//! ([`Matrix::clear`](super::Matrix::clear)). Sums over rows are taken in slices, whose parts go to a scratch buffer that all
//! layers of a recording may share ([`scratch`]), and then in the slices' order: two runs give the same bits.
//!
//! Where a layer took something that is cheaper to make again than to keep, the caller makes it again: a normed input by
//! [`RmsNorm`](super::RmsNorm), a gated one by [`GatedGradient`], which writes it beside the gradients.

mod adamw;
mod arrays;
mod attention;
mod conv;
mod embedding;
mod gated;
mod halve;
mod linear;
mod loss;
mod norm;
mod output;
mod place;
mod read_weights;
mod sums;

pub use adamw::{AdamW, Decays, Parameter, Step};
pub use arrays::{ArrayGradients, DecayRates, DeltaArraysGradient, Mamba2ArraysGradient};
pub use attention::Attention;
pub use conv::{ConvGradient, ConvGradientSpec};
pub use embedding::{EmbeddingGradient, EmbeddingGradientSpec, embedding_order};
pub use gated::{GatedGradient, GatedGradientSpec};
pub use halve::Halve;
pub use linear::{InputGradient, InputGradientSpec, MatrixGradient, MatrixGradientSpec};
pub use loss::{CrossEntropy, CrossEntropySpec, Head, HeadBlock};
pub use norm::RmsNormGradient;
pub use output::{DeltaOutputGradient, Mamba2OutputGradient};
pub use place::{Place, PlaceSpec};
pub use read_weights::{ReadWeightsGradient, ReadWeightsGradientSpec};
pub use sums::{ColumnSums, ColumnSumsSpec, scratch};
