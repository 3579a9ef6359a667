//! The layers around the operator, at `f32` and `f64`; weights lie as checkpoints hold them.
//!
//! Models run at `f32`. Each layer's gradients stand beside its forward pass.

pub mod activation;
pub mod attention;
#[cfg(test)]
pub(crate) mod check;
pub mod conv;
pub mod decay;
pub mod embedding;
pub mod linear;
pub mod loss;
pub mod norm;

pub use attention::Attention;
pub use conv::CausalConv;
pub use embedding::Embedding;
pub use linear::Linear;
pub use norm::RmsNorm;
