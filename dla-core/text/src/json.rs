//! A tokenizer.json, through the `tokenizers` crate.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use dla_core::file::{self, MAX_TEXT};
use dla_core::{Error, Result};
use serde_json::Value;
use tokenizers::Tokenizer;

use crate::chain::{Chain, Token};
use crate::decoder::Runs;

/// What names special tokens beside a tokenizer.json, the first file first.
const SETTINGS: [&str; 2] = ["tokenizer_config.json", "special_tokens_map.json"];

/// A tokenizer.json.
#[derive(Clone, Debug)]
pub(crate) struct Json {
    path: PathBuf,
    tokenizer: Tokenizer,
    /// The tokens that were added to the vocabulary, as they were added; none for special ones, which have no text.
    added: HashMap<u32, Option<String>>,
    /// Tokens are letters for bytes.
    spells_bytes: bool,
    /// How many ids the model has.
    vocabulary: usize,
}

impl Json {
    /// Reads `file` of a model directory; the model has `vocabulary` ids.
    pub(crate) fn open(folder: &Path, file: &str, vocabulary: usize) -> Result<Self> {
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
        let added = tokenizer.get_added_tokens_decoder().into_iter();
        let added = added.map(|(id, token)| (id, (!token.special).then_some(token.content)));
        Ok(Self {
            added: added.collect(),
            spells_bytes: Chain::new(tokenizer.get_decoder(), Runs::Whole).spells_bytes(),
            path,
            tokenizer,
            vocabulary,
        })
    }

    /// The id of the token that a text begins with, if the files beside this one name one.
    ///
    /// # Errors
    /// For a file that cannot be read, and a name that is none.
    pub(crate) fn start(&self, folder: &Path) -> Result<Option<u32>> {
        let named = named(folder, "bos_token")?;
        // Only an empty text needs it.
        Ok(named.and_then(|(_, token)| self.tokenizer.token_to_id(&token)))
    }

    /// The id of the token that ends a text, if the files beside this one name one.
    ///
    /// # Errors
    /// Those of [`Json::start`], and for a name that no token has.
    pub(crate) fn end(&self, folder: &Path) -> Result<Option<u32>> {
        let Some((path, token)) = named(folder, "eos_token")? else {
            return Ok(None);
        };
        let id = self.tokenizer.token_to_id(&token);
        id.map(Some).ok_or_else(|| {
            let argument = format!("{}, eos_token", path.display());
            let expected = "a token of tokenizer.json";
            let error = Error::input("tokenizer", argument, expected, format!("{token:?}"));
            error.advise("name one of its tokens, or give eos_token_id in generation_config.json")
        })
    }

    pub(crate) fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let encoding = self.tokenizer.encode(text, true).map_err(|error| {
            let expected = "text that tokenizer.json has tokens for";
            Error::input("tokenizer", "text", expected, error)
        })?;
        let ids = encoding.get_ids();
        match ids.iter().find(|&&id| id as usize >= self.vocabulary) {
            None => Ok(ids.to_vec()),
            Some(&id) => {
                let expected = format!("ids below the model's vocabulary, {}", self.vocabulary);
                let token = self.tokenizer.id_to_token(id).unwrap_or_default();
                let got = format!("{id} for {token:?}");
                let argument = format!("text by {}", self.path.display());
                let error = Error::input("tokenizer", argument, expected, got);
                Err(error.advise("leave it out: the model has fewer tokens than this tokenizer"))
            }
        }
    }

    /// True when the file has a token with this id.
    pub(crate) fn contains(&self, id: u32) -> bool {
        self.tokenizer.id_to_token(id).is_some()
    }

    /// The token that has a text; none for special ones, and for ids without a token.
    pub(crate) fn token(&self, id: u32) -> Option<Token> {
        let text = self.tokenizer.id_to_token(id)?;
        let special = self.tokenizer.get_added_vocabulary();
        if special.is_special_token(&text) {
            return None;
        }
        match self.added.get(&id) {
            // A normaliser may have spelt it in letters already: they stand for the same bytes.
            Some(Some(content)) if self.spells_bytes => Some(Token {
                text: content.clone(),
                added: true,
            }),
            Some(None) => None,
            added => Some(Token {
                text,
                added: added.is_some(),
            }),
        }
    }

    /// What turns tokens into text.
    pub(crate) fn chain(&self, runs: Runs) -> Chain<'_> {
        Chain::new(self.tokenizer.get_decoder(), runs)
    }
}

/// The byte that a character of GPT-2's alphabet stands for: printable Latin-1 characters for
/// themselves, those from U+0100 on for the other bytes in turn.
pub(crate) fn byte_of(letter: char) -> Option<u8> {
    let code = u32::from(letter);
    match code {
        0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF => u8::try_from(code).ok(),
        0x100..=0x120 => u8::try_from(code - 0x100).ok(), // 0x00 to 0x20
        0x121..=0x142 => u8::try_from(code - 0x121 + 0x7F).ok(), // 0x7F to 0xA0
        0x143 => Some(0xAD),
        _ => None,
    }
}

/// The token that `key` stands for in the first of the files that names one, and that file.
fn named(folder: &Path, key: &str) -> Result<Option<(PathBuf, String)>> {
    for file in SETTINGS {
        let path = folder.join(file);
        if !path.exists() {
            continue;
        }
        let settings: Value = serde_json::from_slice(&read(&path)?).map_err(|error| {
            let path = path.display().to_string();
            Error::input("tokenizer", path, "JSON", error)
        })?;
        if let Some(token) = special(&path, &settings, key)? {
            return Ok(Some((path, token.to_owned())));
        }
    }
    Ok(None)
}

/// A special token: a string, or an object with its content; none if it is absent or null.
fn special<'a>(path: &Path, settings: &'a Value, key: &str) -> Result<Option<&'a str>> {
    let token = match settings.get(key) {
        None | Some(Value::Null) => return Ok(None),
        Some(token) => token,
    };
    let text = token.as_str().or_else(|| token["content"].as_str());
    text.map(Some).ok_or_else(|| {
        let argument = format!("{}, {key}", path.display());
        let expected = "a token, as a string or an object with its content";
        Error::input("tokenizer", argument, expected, token)
    })
}

fn read(path: &Path) -> Result<Vec<u8>> {
    file::read("tokenizer", path, MAX_TEXT)
}
