//! The case table, and the checks that compare the parts of the project with each other.

pub mod cases;
pub mod gpu;
pub mod hardware;
pub mod kernels;
pub mod layer_sources;
pub mod layers;
pub mod pieces;
pub mod rig;
pub mod tolerance;
