//! The operator, step by step: score, boundary, capacity, readout, and the recurrences made of them.

pub mod bound;
pub mod boundary;
pub mod chunk;
pub mod compact;
pub mod merge;
pub mod readout;
pub mod recurrent;
pub mod run;
pub mod schedule;
pub mod score;
pub mod sequence;
pub mod state;
