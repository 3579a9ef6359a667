//! The layers around the operator, in plain `f32`; weights lie as checkpoints hold them.

pub mod activation;
pub mod conv;
pub mod embedding;
pub mod linear;
pub mod norm;

pub use conv::CausalConv;
pub use embedding::Embedding;
pub use linear::Linear;
pub use norm::RmsNorm;
