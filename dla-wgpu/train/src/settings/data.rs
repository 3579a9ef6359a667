//! The section `data`.

use std::path::{Path, PathBuf};

use dla_core::model::SpecialIds;
use dla_core::{Error, Result};
use dla_text::Tokenizer;
use serde::{Deserialize, Serialize};

use crate::task::niah::{Kind, NiahOptions};
use crate::task::{Corpus, Mixture, Mqar, Niah, Task, Text};

/// What is learned.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(tag = "task", rename_all = "snake_case")]
pub enum DataSettings {
    /// Windows of plain text.
    Text(TextSettings),
    /// Multi-query associative recall.
    Mqar(MqarSettings),
    /// Needles in haystacks.
    Niah(NiahSettings),
    /// Several of these.
    Mixture(MixtureSettings),
}

/// Settings of windows of text.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct TextSettings {
    /// Files, and folders with files `*.txt`.
    #[serde(skip_serializing)]
    pub files: Vec<PathBuf>,
    /// Tokens of a sequence.
    pub length: usize,
    /// A folder with a tokenizer.json; bytes without one.
    pub tokenizer: Option<PathBuf>,
}

/// Settings of associative recall.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct MqarSettings {
    /// Tokens of a sequence.
    pub length: usize,
    /// Pairs of a key and a value.
    pub pairs: usize,
    /// Token ids.
    #[serde(default = "mqar_vocabulary")]
    pub vocabulary: usize,
}

fn mqar_vocabulary() -> usize {
    8192
}

/// Settings of needles in haystacks.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct NiahSettings {
    /// Tokens of a sequence.
    pub length: usize,
    /// The kinds; all if not given.
    #[serde(default)]
    pub kinds: Vec<String>,
    /// The texts that needles are hidden in.
    #[serde(default, skip_serializing)]
    pub files: Vec<PathBuf>,
    /// A folder with a tokenizer.json; bytes without one.
    pub tokenizer: Option<PathBuf>,
    /// `words`, `numbers` or `uuids`, where it is not what the kind says.
    pub keys: Option<String>,
    /// `words`, `numbers` or `uuids`, where it is not what the kind says.
    pub values: Option<String>,
    /// The whole text is to be predicted, not only the answer.
    #[serde(default)]
    pub whole_text: bool,
}

/// Settings of a mixture.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct MixtureSettings {
    /// The parts.
    pub parts: Vec<Part>,
}

/// A task and how often it comes.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// How often, against the others.
    pub weight: f64,
    /// The task.
    pub data: DataSettings,
}

impl DataSettings {
    /// The task; `vocabulary` is the model's, if that is known already.
    ///
    /// # Errors
    /// For texts that cannot be read, sizes that do not fit, and a tokenizer without `vocabulary`.
    pub fn task(&self, vocabulary: Option<usize>) -> Result<Box<dyn Task>> {
        Ok(match self {
            Self::Text(text) => {
                let corpus = Corpus::open(&text.files)?;
                let tokenizer = tokenizer(text.tokenizer.as_deref(), vocabulary)?;
                Box::new(Text::new(&corpus, &tokenizer, text.length)?)
            }
            Self::Mqar(mqar) => Box::new(Mqar::new(mqar.length, mqar.pairs, mqar.vocabulary)?),
            Self::Niah(niah) => {
                let files = (!niah.files.is_empty()).then(|| Corpus::open(&niah.files));
                let tokenizer = tokenizer(niah.tokenizer.as_deref(), vocabulary)?;
                Box::new(Niah::new(
                    niah.options()?,
                    tokenizer,
                    vocabulary.unwrap_or(0),
                    files.transpose()?.as_ref(),
                )?)
            }
            Self::Mixture(mixture) => {
                let part = |part: &Part| Ok((part.weight, part.data.task(vocabulary)?));
                let parts = mixture.parts.iter().map(part);
                Box::new(Mixture::new(parts.collect::<Result<_>>()?)?)
            }
        })
    }

    /// The folder of the tokenizer, which belongs beside the weights.
    pub fn tokenizer(&self) -> Option<&Path> {
        match self {
            Self::Text(text) => text.tokenizer.as_deref(),
            Self::Mqar(_) => None,
            Self::Niah(niah) => niah.tokenizer.as_deref(),
            Self::Mixture(mixture) => mixture.parts.iter().find_map(|part| part.data.tokenizer()),
        }
    }
}

impl NiahSettings {
    fn options(&self) -> Result<NiahOptions> {
        let kinds = self.kinds.iter().map(|word| word.parse());
        let kinds: Vec<Kind> = kinds.collect::<Result<_>>()?;
        let item = |word: &Option<String>| word.as_deref().map(str::parse).transpose();
        Ok(NiahOptions {
            tokens: self.length,
            kinds: if kinds.is_empty() {
                Kind::ALL.to_vec()
            } else {
                kinds
            },
            keys: item(&self.keys)?,
            values: item(&self.values)?,
            whole_text: self.whole_text,
        })
    }
}

fn tokenizer(folder: Option<&Path>, vocabulary: Option<usize>) -> Result<Tokenizer> {
    match (folder, vocabulary) {
        (None, _) => Ok(Tokenizer::bytes()),
        (Some(folder), _) if !folder.join("tokenizer.json").is_file() => {
            let path = folder.display().to_string();
            Err(Error::input(
                "train",
                path,
                "a folder with a tokenizer.json",
                "none there",
            ))
        }
        (Some(folder), Some(vocabulary)) => {
            Tokenizer::open(folder, vocabulary, &SpecialIds::open(folder, vocabulary)?)
        }
        (Some(_), None) => {
            let expected = "the tokenizer's size, for there is a tokenizer";
            Err(Error::input("train", "model.vocabulary", expected, "none"))
        }
    }
}
