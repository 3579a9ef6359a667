//! A tokenizer.json, through the `tokenizers` crate.

use std::collections::HashMap;
use std::path::Path;

use dla_core::file::{self, MAX_TEXT};
use dla_core::{Error, Result};
use serde_json::Value;
use tokenizers::Tokenizer;

/// What tells of the tokenizer's special tokens.
const SETTINGS: &str = "tokenizer_config.json";
/// Ends of text that go without saying.
const ENDS: [&str; 3] = ["<|endoftext|>", "</s>", "<|end_of_text|>"];

/// A tokenizer.json and its special tokens.
#[derive(Clone, Debug)]
pub(crate) struct Json {
    tokenizer: Tokenizer,
    spelling: Spelling,
    /// Tokens that were added to the vocabulary; true for special ones, which have no text.
    added: HashMap<u32, bool>,
    start: Option<u32>,
    end: Option<u32>,
}

/// What an id stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Bytes of UTF-8, perhaps a part of a character.
    Bytes(Vec<u8>),
    /// Whole characters.
    Text(String),
}

/// How tokens spell bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spelling {
    /// Each character of a token is a byte (GPT-2's alphabet).
    ByteLevel,
    /// A token `<0x41>` is a byte, others are text.
    ByteFallback,
    /// All tokens are text.
    Text,
}

impl Json {
    /// Reads `file` of a model directory.
    pub(crate) fn open(folder: &Path, file: &str) -> Result<Self> {
        let path = folder.join(file);
        let bytes = read(&path)?;
        let wrong = |error: &dyn std::fmt::Display| {
            let expected = "a tokenizer of the tokenizers crate";
            Error::input("tokenizer", path.display().to_string(), expected, error)
        };
        let mut tokenizer = Tokenizer::from_bytes(&bytes).map_err(|error| wrong(&error))?;
        // A prompt is what the caller says: never cut, never filled up.
        tokenizer
            .with_truncation(None)
            .map_err(|error| wrong(&error))?;
        tokenizer.with_padding(None);
        let json: Value = serde_json::from_slice(&bytes).map_err(|error| wrong(&error))?;
        let added = tokenizer.get_added_tokens_decoder().into_iter();
        let settings = settings(folder)?;
        let named = |key| special(&settings, key).and_then(|token| tokenizer.token_to_id(token));
        let usual = || ENDS.iter().find_map(|token| tokenizer.token_to_id(token));
        Ok(Self {
            start: named("bos_token"),
            end: named("eos_token").or_else(usual),
            spelling: Spelling::of(&json["decoder"]),
            added: added.map(|(id, token)| (id, token.special)).collect(),
            tokenizer,
        })
    }

    pub(crate) fn largest_id(&self) -> Option<u32> {
        self.tokenizer.get_vocab(true).into_values().max()
    }

    pub(crate) fn start(&self) -> Option<u32> {
        self.start
    }

    pub(crate) fn end(&self) -> Option<u32> {
        self.end
    }

    pub(crate) fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let encoding = self.tokenizer.encode(text, true).map_err(|error| {
            let expected = "text that tokenizer.json has tokens for";
            Error::input("tokenizer", "text", expected, error)
        })?;
        Ok(encoding.get_ids().to_vec())
    }

    /// What `id` stands for after `last`, the id before it that stood for something.
    pub(crate) fn piece(&self, last: Option<u32>, id: u32) -> Option<Piece> {
        let token = self.tokenizer.id_to_token(id)?;
        if self.added.get(&id) == Some(&true) {
            return None;
        }
        Some(match self.spelling {
            Spelling::ByteLevel => Piece::Bytes(byte_level(&token)),
            Spelling::ByteFallback => match byte_fallback(&token) {
                Some(byte) => Piece::Bytes(vec![byte]),
                None => Piece::Text(self.text(last, id)),
            },
            Spelling::Text => Piece::Text(self.text(last, id)),
        })
    }

    /// The text that `id` adds to that of `last`: decoders take a blank off the beginning of a text.
    fn text(&self, last: Option<u32>, id: u32) -> String {
        let decode = |ids: &[u32]| self.tokenizer.decode(ids, true).unwrap_or_default();
        let added = last.and_then(|last| {
            let text = decode(&[last, id]);
            text.strip_prefix(&decode(&[last])).map(str::to_owned)
        });
        added.unwrap_or_else(|| decode(&[id]))
    }
}

impl Spelling {
    /// That of the `decoder` section, which is one decoder or a sequence of them.
    fn of(decoder: &Value) -> Self {
        let parts = decoder["decoders"].as_array();
        let parts = parts.map_or(std::slice::from_ref(decoder), Vec::as_slice);
        let has = |name| parts.iter().any(|part| part["type"] == name);
        if has("ByteLevel") {
            Self::ByteLevel
        } else if has("ByteFallback") {
            Self::ByteFallback
        } else {
            Self::Text
        }
    }
}

/// The bytes of a token in GPT-2's alphabet; a token that is not, an added one, is its own text.
fn byte_level(token: &str) -> Vec<u8> {
    let bytes: Option<Vec<u8>> = token.chars().map(byte_of).collect();
    bytes.unwrap_or_else(|| token.as_bytes().to_vec())
}

/// The byte that a character of GPT-2's alphabet stands for: printable Latin-1 characters for
/// themselves, those from U+0100 on for the other bytes in turn.
fn byte_of(letter: char) -> Option<u8> {
    let code = u32::from(letter);
    match code {
        0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF => u8::try_from(code).ok(),
        0x100..=0x120 => u8::try_from(code - 0x100).ok(), // 0x00 to 0x20
        0x121..=0x142 => u8::try_from(code - 0x121 + 0x7F).ok(), // 0x7F to 0xA0
        0x143 => Some(0xAD),
        _ => None,
    }
}

/// The byte of `<0x41>`.
fn byte_fallback(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    let byte = u8::from_str_radix(digits, 16).ok();
    byte.filter(|_| digits.len() == 2)
}

/// tokenizer_config.json; null without one.
fn settings(folder: &Path) -> Result<Value> {
    let path = folder.join(SETTINGS);
    if !path.exists() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(&read(&path)?).map_err(|error| {
        let path = path.display().to_string();
        Error::input("tokenizer", path, "JSON", error)
    })
}

/// A special token: a string, or an object with its content.
fn special<'a>(settings: &'a Value, key: &str) -> Option<&'a str> {
    let token = &settings[key];
    token.as_str().or_else(|| token["content"].as_str())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    file::read("tokenizer", path, MAX_TEXT)
}
