//! Text to token ids.

use std::path::Path;

use dla_core::model::{ModelConfig, SpecialIds};
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
pub struct Tokenizer {
    pub(crate) kind: Kind,
    /// What a text begins with.
    start: Option<u32>,
    /// What ends a text.
    ends: Vec<u32>,
}

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
        Self::of_bytes(&SpecialIds::default())
    }

    fn of_bytes(special: &SpecialIds) -> Self {
        Self {
            kind: Kind::Bytes,
            start: special.bos,
            ends: special.eos.clone(),
        }
    }

    /// The tokenizer of a model directory, whose model has these settings: its tokenizer.json; without one, bytes.
    ///
    /// What begins and ends a text is what generation_config.json or config.json name ([`ModelConfig::special`]),
    /// else what tokenizer_config.json or special_tokens_map.json name; nothing is guessed.
    ///
    /// # Errors
    /// For a file that cannot be read or is none, special tokens that are none, a vocabulary without all bytes where
    /// there is no file, and, without the feature `json`, a tokenizer.json.
    pub fn of(folder: &Path, config: &ModelConfig) -> Result<Self> {
        Self::open(folder, config.vocabulary, &config.special)
    }

    /// The tokenizer in `folder` for a model of `vocabulary` ids, `special` ones among them, as [`Tokenizer::of`] has it.
    ///
    /// # Errors
    /// Those of [`Tokenizer::of`].
    pub fn open(folder: &Path, vocabulary: usize, special: &SpecialIds) -> Result<Self> {
        if folder.join(FILE).exists() {
            return Self::of_json(folder, vocabulary, special);
        }
        if vocabulary < BYTES {
            let expected = format!("{FILE}, or a vocabulary of at least {BYTES} for bytes");
            let got = format!("neither, and a vocabulary of {vocabulary}");
            let error = Error::input("tokenizer", folder.display().to_string(), expected, got);
            return Err(error.advise("put the model's tokenizer.json beside its weights"));
        }
        Ok(Self::of_bytes(special))
    }

    #[cfg(feature = "json")]
    fn of_json(folder: &Path, vocabulary: usize, special: &SpecialIds) -> Result<Self> {
        let json = Json::open(folder, FILE, vocabulary)?;
        let below = |id: &u32| (*id as usize) < vocabulary;
        let start = match special.bos {
            Some(id) => Some(id),
            None => json.start(folder)?.filter(below),
        };
        let ends = match &special.eos[..] {
            [] => json.end(folder)?.filter(below).into_iter().collect(),
            ends => ends.to_vec(),
        };
        Ok(Self {
            kind: Kind::Json(Box::new(json)),
            start,
            ends,
        })
    }

    #[cfg(not(feature = "json"))]
    fn of_json(folder: &Path, _vocabulary: usize, _special: &SpecialIds) -> Result<Self> {
        let path = folder.join(FILE).display().to_string();
        let expected = "a model whose tokens are bytes";
        let error = Error::unsupported("tokenizer", path, expected, FILE);
        Err(error.advise("build with the feature json"))
    }

    /// True when tokens are bytes.
    pub fn is_bytes(&self) -> bool {
        matches!(self.kind, Kind::Bytes)
    }

    /// The ids of a text, those that the tokenizer puts around every text among them.
    ///
    /// Special tokens that are spelt out in the text are read as such.
    ///
    /// # Errors
    /// For text that a tokenizer.json has no tokens for, and for tokens that the model has no ids for.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        match &self.kind {
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
        match &self.kind {
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

    /// The ids that end a text, each of them; none where no file names one.
    pub fn ends(&self) -> &[u32] {
        &self.ends
    }

    /// True when a text ends with `id`.
    pub fn is_end(&self, id: u32) -> bool {
        self.ends.contains(&id)
    }

    /// The id that an empty text begins with, if the files name one: the begin of text, else the
    /// first end of text, which stands between the documents that such models are trained on.
    pub fn start(&self) -> Option<u32> {
        self.start.or(self.ends.first().copied())
    }

    /// True when there is a token with this id, special tokens among them; a model may have more.
    pub fn contains(&self, id: u32) -> bool {
        match &self.kind {
            Kind::Bytes => (id as usize) < BYTES,
            #[cfg(feature = "json")]
            Kind::Json(json) => json.contains(id),
        }
    }
}
