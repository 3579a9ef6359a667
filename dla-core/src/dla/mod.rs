//! The operator, step by step: score, boundary, capacity, readout, and the recurrences made of them.

pub mod backward;
pub mod bound;
pub mod boundary;
pub mod chunk;
pub mod compact;
pub mod gate;
pub mod merge;
pub(crate) mod positions;
pub mod readout;
pub mod recurrent;
mod replay;
pub mod run;
pub mod schedule;
pub mod score;
pub mod sequence;
pub mod state;
