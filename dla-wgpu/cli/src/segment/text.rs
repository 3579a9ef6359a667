//! The text as token ids, and as the pieces that show them.

use std::path::Path;

use dla_core::file::{self, MAX_TEXT};
use dla_core::model::ModelConfig;
use dla_core::{Error, Result};
use dla_text::Tokenizer;

/// A text and its tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct Text {
    /// The token ids.
    pub ids: Vec<u32>,
    /// What is shown, in order; together they cover the tokens.
    pub pieces: Vec<Piece>,
}

/// The smallest text that can be shown alone: a character's bytes are several tokens but one piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// How many tokens it is made of, at least 1.
    pub tokens: usize,
    /// The characters.
    pub text: String,
}

impl Text {
    /// Reads the file `path`, `-` for stdin, as the model in `folder` sees it.
    ///
    /// # Errors
    /// When the file cannot be read or is empty, and when it holds what the model's tokens cannot say.
    pub fn read(path: &Path, folder: &Path, config: &ModelConfig) -> Result<Self> {
        let name = || path.display().to_string();
        let tokenizer = match folder.join("tokenizer.json").exists() {
            true => Some(Tokenizer::of(folder, config)?),
            false => None,
        };
        let bytes = file::read_stream("segment", path, MAX_TEXT)?;
        if bytes.is_empty() {
            return Err(Error::input("segment", name(), "a text", "an empty file"));
        }
        if let Some(tokenizer) = tokenizer {
            return Ok(Self::of_ids(&tokenizer, tokenizer.encode_bytes(&bytes)?));
        }
        let vocabulary = config.vocabulary;
        let beyond = bytes
            .iter()
            .position(|&byte| usize::from(byte) >= vocabulary);
        if let Some(at) = beyond {
            let expected = format!("bytes below {vocabulary}, the model's vocabulary");
            let got = format!("byte {} at offset {at}", bytes[at]);
            return Err(Error::input("segment", name(), expected, got)
                .advise("without a tokenizer.json bytes are the tokens"));
        }
        Ok(Self::of_bytes(&bytes))
    }

    /// A tokenizer's ids. Those that only together make characters are one piece.
    fn of_ids(tokenizer: &Tokenizer, ids: Vec<u32>) -> Self {
        let pieces = tokenizer.pieces(&ids).into_iter();
        let pieces = pieces.map(|(tokens, text)| Piece { tokens, text });
        Self {
            pieces: pieces.collect(),
            ids,
        }
    }

    /// Bytes as tokens. Those of one character are one piece; each that belongs to none is U+FFFD.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        let mut pieces = Vec::with_capacity(bytes.len());
        for chunk in bytes.utf8_chunks() {
            pieces.extend(chunk.valid().chars().map(|c| Piece {
                tokens: c.len_utf8(),
                text: c.to_string(),
            }));
            pieces.extend(chunk.invalid().iter().map(|_| Piece {
                tokens: 1,
                text: char::REPLACEMENT_CHARACTER.to_string(),
            }));
        }
        Self {
            ids: bytes.iter().map(|&byte| byte.into()).collect(),
            pieces,
        }
    }

    /// The pieces with the position of their first token.
    pub fn placed(&self) -> impl Iterator<Item = (usize, &Piece)> {
        self.pieces.iter().scan(0, |next, piece| {
            let at = *next;
            *next += piece.tokens;
            Some((at, piece))
        })
    }
}

/// The same text with control characters as pictures of themselves (␀, ␛, …): harmless to terminals and
/// allowed in every kind of file. Line ends and tabs stay.
pub fn visible(text: &str) -> String {
    let shown = |c: char| match c {
        '\n' | '\t' => c,
        '\0'..='\u{1f}' => char::from_u32(0x2400 + u32::from(c)).unwrap_or(c),
        '\u{7f}' => '␡',
        '\u{80}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' => char::REPLACEMENT_CHARACTER,
        c => c,
    };
    text.chars().map(shown).collect()
}

/// Text for the inside of an element or attribute.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in visible(text).chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{Text, visible};

    #[test]
    fn pieces_cover_the_bytes_and_never_split_a_character() {
        let text = Text::of_bytes(b"a\xc3\xa9\xff\xe2\x82z");
        let pieces: Vec<_> = text
            .placed()
            .map(|(at, p)| (at, p.tokens, &p.text[..]))
            .collect();
        let bad = "\u{fffd}";
        assert_eq!(
            pieces,
            [
                (0, 1, "a"),
                (1, 2, "é"),
                (3, 1, bad),
                (4, 1, bad),
                (5, 1, bad),
                (6, 1, "z")
            ]
        );
        assert_eq!(text.ids, [0x61, 0xc3, 0xa9, 0xff, 0xe2, 0x82, 0x7a]);
    }

    #[test]
    fn control_characters_are_pictures() {
        assert_eq!(
            visible("a\u{1b}[31m\0\n\t\u{7f}\u{9b}"),
            "a␛[31m␀\n\t␡\u{fffd}"
        );
    }
}
