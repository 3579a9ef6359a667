//! Checkpoints: config.json beside safetensors, as four families of files have them.
//!
//! | family | recognised by |
//! |---|---|
//! | Hugging Face Mamba-2 | `"model_type": "mamba2"` |
//! | state-spaces Mamba-2 | an `ssm_cfg` section |
//! | fla Gated DeltaNet | `"model_type": "gated_deltanet"` |
//! | softmax attention, the baseline of experiments | `"model_type": "dla_attention"` |
//!
//! A section `dla` in config.json, and tensors `dla.*` in each mixer, lay DLA over any of them but the last, which
//! has no states. All headers are checked before any tensor is read, and tensors are read one at a time, so memory
//! holds the widened weights and never a second copy of the file.

mod families;
mod json;
mod save;
mod shards;
mod special;
mod survey;
mod upcycle;

use std::path::Path;

use serde_json::{Map, Value};

pub use upcycle::Upcycle;

use self::shards::Shards;
use self::survey::Survey;
use crate::error::{Error, Result};
use crate::file;
use crate::model::{Model, ModelConfig, ModelTensors, Weights};
use crate::tensors::TensorFile;

/// A checkpoint whose settings are read and whose tensors are not, yet.
///
/// ```
/// use dla_core::checkpoint::Checkpoint;
/// let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/golden/model/gdn_fla");
/// let checkpoint = Checkpoint::open(folder.as_ref())?;
/// assert_eq!(checkpoint.config().hidden, 36);
/// assert!(checkpoint.faults().is_empty());
/// # Ok::<(), dla_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Checkpoint {
    json: Map<String, Value>,
    config: ModelConfig,
    shards: Shards,
}

impl Checkpoint {
    /// Opens a model directory. A generation_config.json there goes before config.json where it names
    /// special tokens.
    ///
    /// # Errors
    /// When a file is missing or malformed, or config.json asks for what is not served; the error
    /// names the setting and the reason. Pickled weights are refused with the command that converts them.
    pub fn open(folder: &Path) -> Result<Self> {
        if !folder.is_dir() {
            let got = match folder.exists() {
                true => "a file",
                false => "nothing of that name",
            };
            let expected = "a model directory, which holds config.json";
            let name = folder.display().to_string();
            return Err(Error::input("load", name, expected, got));
        }
        let text = file::read_text("load", &folder.join("config.json"))?;
        let mut checkpoint = Self::new(&text, Shards::open(folder)?)?;
        let config = &mut checkpoint.config;
        let generation = special::generation(folder, config.vocabulary)?;
        config.special = generation.or(std::mem::take(&mut config.special));
        Ok(checkpoint)
    }

    /// Takes the text of config.json and the bytes of the safetensors files, each with the name that
    /// errors call it.
    ///
    /// # Errors
    /// As [`Checkpoint::open`].
    pub fn from_bytes(config: &str, files: Vec<(String, Vec<u8>)>) -> Result<Self> {
        let files = files.into_iter();
        let files = files.map(|(name, bytes)| TensorFile::parse(name, bytes));
        let files = files.collect::<Result<_>>().map_err(in_load)?;
        Self::new(config, Shards::new(files)?)
    }

    fn new(text: &str, shards: Shards) -> Result<Self> {
        let json = json::parse("config.json", text)?;
        let config = families::read(&json)?;
        Ok(Self {
            json,
            config,
            shards,
        })
    }

    /// The model's settings.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Numbers in all tensors.
    pub fn parameters(&self) -> u64 {
        let tensors = self.shards.names().filter_map(|name| self.shards.get(name));
        let sizes = tensors.map(|tensor| tensor.shape().iter().map(|&n| n as u64).product::<u64>());
        sizes.sum()
    }

    /// The tensors that lie in the shards and that their index does not name: they are not read.
    pub fn skipped(&self) -> &[String] {
        self.shards.skipped()
    }

    /// What keeps the tensors from being this model's: missing, misshapen, of a type that does not
    /// widen, or asked for by nobody. The first few, if there are many.
    pub fn faults(&self) -> Vec<Error> {
        let mut survey = Survey::new(&self.shards);
        // An error only says that the survey has seen enough.
        let complete = ModelTensors::load(&self.config, &mut survey).is_ok();
        survey.finish(complete, self.config.tied)
    }

    /// Its tensors, each read from the file when it is asked for.
    ///
    /// # Errors
    /// The first of [`Checkpoint::faults`].
    pub fn weights(&self) -> Result<impl Weights<Tensor = Vec<f32>> + use<'_>> {
        match self.faults().into_iter().next() {
            Some(fault) => Err(fault),
            None => Ok(&self.shards),
        }
    }

    /// Reads the weights.
    ///
    /// # Errors
    /// The first of [`Checkpoint::faults`], and files that cannot be read.
    pub fn model(&self) -> Result<Model> {
        Model::build(&self.config, &mut self.weights()?)
    }
}

impl Model {
    /// Reads a model directory: config.json and model.safetensors, or the index of its shards.
    ///
    /// # Errors
    /// Those of [`Checkpoint::open`] and [`Checkpoint::model`].
    pub fn load(folder: &Path) -> Result<Self> {
        Checkpoint::open(folder)?.model()
    }
}

/// Errors of a checkpoint's files are errors of loading.
fn in_load(error: Error) -> Error {
    error.within("load")
}
