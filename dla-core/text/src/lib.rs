//! Text in and out of language models.
//!
//! A [`Tokenizer`] turns text into token ids, its [`Decoder`] turns ids into text as they come, and
//! [`Stop`] ends that text at a stop string. Tokens are bytes, or what a tokenizer.json says (feature
//! `json`).

#![forbid(unsafe_code)]

#[cfg(feature = "json")]
mod chain;
mod decoder;
#[cfg(feature = "json")]
mod json;
mod stop;
mod tokenizer;
mod utf8;

pub use decoder::Decoder;
pub use stop::Stop;
pub use tokenizer::Tokenizer;
