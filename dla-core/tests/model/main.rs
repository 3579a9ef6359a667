//! The CPU model: golden logits, every setting's consistency, sessions, files that are wrong.
#![cfg(feature = "checkpoint")]

mod call;
mod decay;
mod files;
mod finite;
mod golden;
mod models;
mod save;
mod session;
mod settings;
mod support;
mod training;
mod upcycle;
