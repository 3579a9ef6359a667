//! Token ids to text as they come.

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
    last: Option<u32>,
}

/// What an id stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Bytes of UTF-8, perhaps a part of a character.
    Bytes(Vec<u8>),
    /// Whole characters.
    Text(String),
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(tokenizer: &'a Tokenizer, before: &[u32]) -> Self {
        let mut decoder = Self {
            tokenizer,
            utf8: Utf8::default(),
            last: None,
        };
        for &id in &before[before.len().saturating_sub(REACH)..] {
            decoder.push(id);
        }
        decoder
    }

    /// Takes `id` in; gives the text that became certain, which may be none.
    pub fn push(&mut self, id: u32) -> String {
        match self.piece(id) {
            None => String::new(),
            Some(Piece::Bytes(bytes)) => self.utf8.push(&bytes),
            Some(Piece::Text(text)) => self.utf8.finish() + &text,
        }
    }

    /// No more ids will come: gives what was held back.
    pub fn finish(&mut self) -> String {
        self.utf8.finish()
    }

    fn piece(&mut self, id: u32) -> Option<Piece> {
        match &self.tokenizer.0 {
            Kind::Bytes => u8::try_from(id).ok().map(|byte| Piece::Bytes(vec![byte])),
            #[cfg(feature = "json")]
            Kind::Json(json) => {
                let piece = json.piece(self.last, id)?;
                self.last = Some(id);
                Some(piece)
            }
        }
    }
}
