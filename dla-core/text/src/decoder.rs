//! Token ids to text as they come.

#[cfg(feature = "json")]
use crate::json::Piece;
use crate::tokenizer::{Kind, Tokenizer};
use crate::utf8::Utf8;

/// Earlier ids that the text of an id may depend on: the bytes of a character, and the word before.
const REACH: usize = 8;

/// Turns ids into text one by one; the pieces together are the text of all ids.
///
/// A character whose bytes have not all come is held back, so no piece splits one. Bytes that are no
/// character become U+FFFD. Ids without text (special tokens, padding of the vocabulary) give nothing.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    tokenizer: &'a Tokenizer,
    utf8: Utf8,
    /// The last id that had text of its own: what the next one's leading blank depends on.
    #[cfg(feature = "json")]
    last: Option<u32>,
}

impl Tokenizer {
    /// Turns the ids that follow `before` into text as they come.
    ///
    /// The text of `before` is not given; it settles whether a word goes on.
    pub fn decoder(&self, before: &[u32]) -> Decoder<'_> {
        Decoder::new(self, before)
    }
}

impl<'a> Decoder<'a> {
    fn new(tokenizer: &'a Tokenizer, before: &[u32]) -> Self {
        let mut decoder = Self {
            tokenizer,
            utf8: Utf8::default(),
            #[cfg(feature = "json")]
            last: None,
        };
        for &id in &before[before.len().saturating_sub(REACH)..] {
            decoder.push(id);
        }
        decoder
    }

    /// Takes `id` in; gives the text that became certain, which may be none.
    pub fn push(&mut self, id: u32) -> String {
        match &self.tokenizer.0 {
            Kind::Bytes => match u8::try_from(id) {
                Ok(byte) => self.utf8.push(&[byte]),
                Err(_) => String::new(),
            },
            #[cfg(feature = "json")]
            Kind::Json(json) => {
                let Some(piece) = json.piece(self.last, id) else {
                    return String::new();
                };
                self.last = Some(id);
                match piece {
                    Piece::Bytes(bytes) => self.utf8.push(&bytes),
                    Piece::Text(text) => self.utf8.finish() + &text,
                }
            }
        }
    }

    /// No more ids will come: gives what was held back.
    pub fn finish(&mut self) -> String {
        self.utf8.finish()
    }
}
