//! Bits per byte of a text.

use std::f64::consts::LN_2;

use dla_core::{Error, Result};
use dla_text::Tokenizer;

use crate::batch::Example;
use crate::scores::{Reader, Totals};

/// How well texts are predicted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TextScore {
    /// Sums over the tokens that were predicted.
    pub totals: Totals,
    /// The bytes of those tokens.
    pub bytes: usize,
}

impl TextScore {
    /// Bits per byte; NaN of nothing.
    pub fn bits_per_byte(&self) -> f64 {
        self.totals.nats / LN_2 / self.bytes as f64
    }
}

/// A text as a model reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    ids: Vec<u32>,
    /// The bytes of all tokens but the first, which nothing predicts.
    bytes: usize,
}

impl Encoded {
    /// `text` in the tokens of `tokenizer`.
    ///
    /// # Errors
    /// For a text that the tokenizer does not take.
    pub fn new(tokenizer: &Tokenizer, text: &[u8]) -> Result<Self> {
        let ids = tokenizer.encode_bytes(text)?;
        let bytes = text.len() - first_bytes(tokenizer, &ids).min(text.len());
        Ok(Self { ids, bytes })
    }

    /// Tokens that are predicted.
    pub fn predicted(&self) -> usize {
        self.ids.len().saturating_sub(1)
    }
}

/// Predicts every token of every text but its first, in windows of `window` tokens that start from nothing.
///
/// # Errors
/// For texts that have fewer than two tokens in all, no window, those of the reader, and when a loss is not finite.
pub fn score(reader: &impl Reader, texts: &[Encoded], window: usize) -> Result<TextScore> {
    if window == 0 {
        return Err(Error::input("eval", "--length", "at least 1", window));
    }
    let mut score = TextScore::default();
    for text in texts {
        let ids = &text.ids;
        for start in (0..text.predicted()).step_by(window) {
            let end = ids
                .len()
                .min(start.saturating_add(window).saturating_add(1));
            let example = Example::of_text(&ids[start..end], 0, end - start - 1);
            let scores = reader.score(&example.ids, &example.targets)?;
            score.totals.add(scores.totals(&example.targets));
        }
        score.bytes += text.bytes;
    }
    if score.totals.counted == 0 {
        return Err(Error::input("eval", "text", "at least two tokens", "fewer"));
    }
    score.totals = score.totals.sound("eval", "logits")?;
    Ok(score)
}

/// The bytes of the first token, which nothing predicts.
fn first_bytes(tokenizer: &Tokenizer, ids: &[u32]) -> usize {
    if tokenizer.is_bytes() {
        return ids.len().min(1);
    }
    let first = tokenizer.pieces(ids.get(..1).unwrap_or_default());
    // Of a character that the first token begins, no byte is text yet.
    let whole = |(_, text): &(usize, String)| text.trim_end_matches('\u{FFFD}').len();
    first.first().map_or(0, whole)
}
