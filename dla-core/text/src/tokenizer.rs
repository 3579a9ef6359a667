//! Text to token ids.

use std::path::Path;

use dla_core::{Error, Result};

#[cfg(feature = "json")]
use crate::json::Json;

/// The tokenizer's file in a model directory.
const FILE: &str = "tokenizer.json";
/// The ids of bytes.
const BYTES: usize = 256;

/// Text to token ids and back.
///
/// ```
/// use dla_text::Tokenizer;
/// let bytes = Tokenizer::bytes();
/// let ids = bytes.encode("né")?;
/// assert_eq!(ids, [b'n'.into(), 0xC3, 0xA9]);
/// let mut decoder = bytes.decoder(&[]);
/// let pieces: Vec<String> = ids.iter().map(|&id| decoder.push(id)).collect();
/// assert_eq!(pieces, ["n", "", "é"]);
/// # Ok::<(), dla_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Tokenizer(pub(crate) Kind);

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// Ids 0 to 255 are the bytes of UTF-8; larger ones have no text.
    Bytes,
    /// A tokenizer.json.
    #[cfg(feature = "json")]
    Json(Box<Json>),
}

impl Tokenizer {
    /// Ids 0 to 255 are the bytes of UTF-8. Larger ids, which a padded vocabulary has, have no text.
    pub fn bytes() -> Self {
        Self(Kind::Bytes)
    }

    /// The tokenizer of a model directory: its tokenizer.json, and the end of text that its
    /// tokenizer_config.json names; without one, bytes.
    ///
    /// # Errors
    /// For a file that cannot be read or is none, an id that is not below the model's `vocabulary`,
    /// and, without the feature `json`, a tokenizer.json.
    pub fn of(folder: &Path, vocabulary: usize) -> Result<Self> {
        if folder.join(FILE).exists() {
            return Self::of_json(folder, vocabulary);
        }
        if vocabulary < BYTES {
            let expected = format!("{FILE}, or a vocabulary of at least {BYTES} for bytes");
            let got = format!("neither, and a vocabulary of {vocabulary}");
            let error = Error::input("tokenizer", folder.display().to_string(), expected, got);
            return Err(error.advise("put the model's tokenizer.json beside its weights"));
        }
        Ok(Self::bytes())
    }

    #[cfg(feature = "json")]
    fn of_json(folder: &Path, vocabulary: usize) -> Result<Self> {
        let json = Json::open(folder, FILE)?;
        let largest = json.largest_id();
        if largest.is_some_and(|id| id as usize >= vocabulary) {
            let path = folder.join(FILE).display().to_string();
            let expected = format!("ids below the model's vocabulary, {vocabulary}");
            let got = largest.unwrap_or_default();
            let error = Error::input("tokenizer", path, expected, got);
            return Err(error.advise("the file belongs to another model"));
        }
        Ok(Self(Kind::Json(Box::new(json))))
    }

    #[cfg(not(feature = "json"))]
    fn of_json(folder: &Path, _vocabulary: usize) -> Result<Self> {
        let path = folder.join(FILE).display().to_string();
        let expected = "a model whose tokens are bytes";
        let error = Error::unsupported("tokenizer", path, expected, FILE);
        Err(error.advise("build with the feature json"))
    }

    /// True when tokens are bytes.
    pub fn is_bytes(&self) -> bool {
        matches!(self.0, Kind::Bytes)
    }

    /// The ids of a text, those that the tokenizer puts around every text among them.
    ///
    /// Special tokens that are spelt out in the text are read as such.
    ///
    /// # Errors
    /// For text that a tokenizer.json has no tokens for.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        match &self.0 {
            Kind::Bytes => Ok(text.bytes().map(u32::from).collect()),
            #[cfg(feature = "json")]
            Kind::Json(json) => json.encode(text),
        }
    }

    /// The ids of text of any encoding: all bytes are tokens, and a tokenizer.json takes UTF-8 only.
    ///
    /// # Errors
    /// Those of [`Tokenizer::encode`], and bytes that are not UTF-8 for a tokenizer.json.
    pub fn encode_bytes(&self, text: &[u8]) -> Result<Vec<u32>> {
        match &self.0 {
            Kind::Bytes => Ok(text.iter().copied().map(u32::from).collect()),
            #[cfg(feature = "json")]
            Kind::Json(json) => {
                let text = std::str::from_utf8(text).map_err(|error| {
                    let got = format!("another byte at {}", error.valid_up_to());
                    Error::input("tokenizer", "text", "UTF-8", got)
                })?;
                json.encode(text)
            }
        }
    }

    /// The id that ends a text, if the tokenizer knows one.
    pub fn end(&self) -> Option<u32> {
        match &self.0 {
            Kind::Bytes => None,
            #[cfg(feature = "json")]
            Kind::Json(json) => json.end(),
        }
    }

    /// The id that an empty text begins with, if the tokenizer knows one: its begin of text, else its
    /// end of text, which stands between the documents that such models are trained on.
    pub fn start(&self) -> Option<u32> {
        match &self.0 {
            Kind::Bytes => None,
            #[cfg(feature = "json")]
            Kind::Json(json) => json.start().or(json.end()),
        }
    }
}
