//! The case table and the checks that hold every room of the house to its neighbours.

pub mod cases;
pub mod gpu;
pub mod hardware;
pub mod kernels;
pub mod layer_sources;
pub mod layers;
pub mod pieces;
pub mod rig;
pub mod tolerance;
