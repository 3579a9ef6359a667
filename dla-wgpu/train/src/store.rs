//! A run's folder: checkpoints that are whole or absent, the newest of which a run goes on from.

use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use dla_core::checkpoint::Checkpoint;
use dla_core::model::{ModelConfig, ModelTensors, TensorName};
use dla_core::tensors::{self, TensorFile};
use dla_core::{Error, Result, file};
use serde::{Deserialize, Serialize};

use crate::atomic::{self, NewFolder};
use crate::engine::Snapshot;
use crate::loss_scale::LossScale;

/// What the tokenizer of a model directory consists of.
const TOKENIZER: [&str; 3] = [
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
];
const OPTIMISER: &str = "optimiser.safetensors";
const STATE: &str = "state.json";
/// The settings file that the run was last started with.
const SETTINGS: &str = "settings.toml";
/// The file whose lock keeps other runs out.
const LOCK: &str = ".lock";
/// What the names of checkpoints begin with.
const PREFIX: &str = "step-";

/// Where a run is.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// Steps done.
    pub step: u64,
    /// Steps of the optimiser that have moved something.
    pub moves: u64,
    /// The seed.
    pub seed: u64,
    /// What the settings hash to.
    pub settings: u64,
    /// The settings themselves, but for what may change; absent in checkpoints from before they were kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<serde_json::Value>,
    /// What the texts hash to.
    pub data: u64,
    /// The scale of the loss, where it follows the steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_scale: Option<LossScale>,
}

/// A run's own folder for as long as it lives. The lock's file stays: it says nothing by itself.
#[derive(Debug)]
pub struct Claim {
    _file: File,
}

/// A run's folder.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
    /// Checkpoints that are kept; 0 is all.
    keep: usize,
    tokenizer: Option<PathBuf>,
}

impl Store {
    /// The folder `folder`, whether it is there or not; checkpoints get the tokenizer in `tokenizer`.
    pub fn open(folder: &Path, keep: usize, tokenizer: Option<&Path>) -> Self {
        Self {
            folder: folder.to_owned(),
            keep,
            tokenizer: tokenizer.map(Path::to_owned),
        }
    }

    /// Refuses a folder whose newest checkpoint is not the one after `step` steps, or that holds one where there is
    /// to be none.
    ///
    /// # Errors
    /// Then, and when the folder cannot be read.
    pub fn check(&self, step: Option<u64>) -> Result<()> {
        let newest = self.steps()?.last().copied();
        if newest == step {
            return Ok(());
        }
        let name = self.folder.display().to_string();
        let come = |step: Option<u64>, none: &str| match step {
            Some(step) => format!("a run that has come to step {step}"),
            None => none.to_owned(),
        };
        let error = Error::input(
            "train",
            name,
            come(step, "a new folder"),
            come(newest, "none"),
        );
        Err(error.advise("go on with --resume, or name another output"))
    }

    /// Makes the folder if it is not there, and keeps other runs out of it until the claim is dropped; its newest
    /// checkpoint must be the one after `step` steps.
    ///
    /// # Errors
    /// When another run has a claim, another checkpoint is there, or the folder cannot be made.
    pub fn claim(&self, step: Option<u64>) -> Result<Claim> {
        fs::create_dir_all(&self.folder).map_err(|error| unwritten(&self.folder, error))?;
        let path = self.folder.join(LOCK);
        let file = File::create(&path).map_err(|error| unwritten(&path, error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let name = self.folder.display().to_string();
                let error = Error::input(
                    "train",
                    name,
                    "a folder of its own",
                    "another run's, which goes on",
                );
                return Err(error.advise("wait until it ends, or name another output"));
            }
            // Some file systems of networks know no locks.
            Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => {}
            Err(TryLockError::Error(error)) => return Err(unwritten(&path, error)),
        }
        self.check(step)?;
        Ok(Claim { _file: file })
    }

    /// Keeps `text`, the settings file, beside the checkpoints.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn keep_settings(&self, text: &str) -> Result<()> {
        atomic::write(&self.folder.join(SETTINGS), text.as_bytes())
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The checkpoint after `step` steps, whether it is there or not.
    pub fn checkpoint(&self, step: u64) -> PathBuf {
        self.folder.join(format!("{PREFIX}{step:08}"))
    }

    /// The steps of all checkpoints, ascending; none of a folder that is not there.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn steps(&self) -> Result<Vec<u64>> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(unread(&self.folder, error)),
        };
        let mut steps = Vec::new();
        for entry in entries {
            let name = entry
                .map_err(|error| unread(&self.folder, error))?
                .file_name();
            let step = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
            steps.extend(step.and_then(|step| step.parse::<u64>().ok()));
        }
        steps.sort_unstable();
        Ok(steps)
    }

    /// Writes the checkpoint of `snapshot` and removes those that are too old.
    ///
    /// # Errors
    /// When something cannot be written; the earlier checkpoints stay then.
    pub fn save(&self, config: &ModelConfig, state: &State, snapshot: &Snapshot) -> Result<()> {
        let path = self.checkpoint(state.step);
        if !path.exists() {
            atomic::folder_of(&path, |folder| self.fill(folder, config, state, snapshot))?;
        }
        let steps = self.steps()?;
        let old = steps.len().saturating_sub(self.keep);
        for &step in steps[..old].iter().filter(|_| self.keep > 0) {
            let path = self.checkpoint(step);
            atomic::remove_folder(&path)?;
        }
        Ok(())
    }

    fn fill(
        &self,
        folder: &NewFolder,
        config: &ModelConfig,
        state: &State,
        snapshot: &Snapshot,
    ) -> Result<()> {
        model_into(folder, config, &snapshot.tensors)?;
        let names = named(config)?;
        let means = [&snapshot.mean, &snapshot.square].into_iter().flatten();
        let arrays: Vec<_> = names
            .iter()
            .zip(means)
            .map(|(name, values)| (name.name.as_str(), name.shape.as_slice(), values.as_slice()))
            .collect();
        folder.file(OPTIMISER, |out| {
            let written = tensors::write(out, &arrays);
            written.map_err(|error| unwritten(OPTIMISER.as_ref(), error))
        })?;
        let state = serde_json::to_vec_pretty(state)
            .map_err(|error| Error::file("train", STATE, "to be written", error))?;
        folder.bytes(STATE, &state)?;
        for name in TOKENIZER {
            let source = self.tokenizer.as_ref().map(|from| from.join(name));
            if let Some(source) = source.filter(|source| source.is_file()) {
                folder.copy(&source, name)?;
            }
        }
        Ok(())
    }

    /// Reads the newest checkpoint.
    ///
    /// # Errors
    /// When there is none, or it is not whole.
    pub fn load(&self) -> Result<(ModelConfig, State, Snapshot)> {
        let Some(&step) = self.steps()?.last() else {
            let name = self.folder.display().to_string();
            let error = Error::input("train", name, "a checkpoint to go on from", "none");
            return Err(error.advise("start without --resume"));
        };
        let folder = self.checkpoint(step);
        let path = folder.join(STATE);
        let text = file::read_text("train", &path)?;
        let state: State = serde_json::from_str(&text).map_err(|error| {
            Error::input(
                "train",
                path.display().to_string(),
                "the state of a run",
                error,
            )
        })?;
        if state.step != step || state.moves > step {
            let expected = format!("step {step}, of which at most all moved something");
            let got = format!("step {}, {} moves", state.step, state.moves);
            let error = Error::input("train", path.display().to_string(), expected, got);
            return Err(error.advise("take this checkpoint away to go on from the one before"));
        }
        let (config, tensors) = read_model(&folder)?;
        let file = TensorFile::open(&folder.join(OPTIMISER))?;
        let names = named(&config)?;
        let mut means = Vec::with_capacity(names.len());
        for name in &names {
            means.push(file.require(&name.name)?.widened("", &name.shape)?);
        }
        let mut means = means.into_iter();
        // The tree of the tensors, filled in order: there are twice as many means as tensors.
        let mut tree = || {
            let next = |_: &Vec<f32>| means.next().unwrap_or_default();
            tensors.each_ref().map(next)
        };
        let (mean, square) = (tree(), tree());
        let State {
            moves, loss_scale, ..
        } = state;
        Ok((
            config,
            state,
            Snapshot {
                tensors,
                moves,
                mean,
                square,
                loss_scale,
            },
        ))
    }
}

/// Settings and tensors of a model directory.
///
/// # Errors
/// Those of [`Checkpoint::open`], [`Checkpoint::weights`] and [`ModelConfig::check_tensors`].
pub fn read_model(folder: &Path) -> Result<(ModelConfig, ModelTensors<Vec<f32>>)> {
    let checkpoint = Checkpoint::open(folder)?;
    let config = checkpoint.config().clone();
    let tensors = ModelTensors::load(&config, &mut checkpoint.weights()?)?;
    config.check_tensors(&tensors)?;
    Ok((config, tensors))
}

/// Writes settings and tensors into a model directory that has neither.
///
/// # Errors
/// For tensors of another model, and when something cannot be written.
pub fn write_model(
    folder: &Path,
    config: &ModelConfig,
    tensors: &ModelTensors<Vec<f32>>,
) -> Result<()> {
    model_into(&NewFolder::in_place(folder), config, tensors)
}

fn model_into(
    folder: &NewFolder,
    config: &ModelConfig,
    tensors: &ModelTensors<Vec<f32>>,
) -> Result<()> {
    folder.bytes("config.json", config.to_json()?.as_bytes())?;
    folder.file("model.safetensors", |out| tensors.save(config, out))
}

/// The names of the optimiser's arrays: the means of all gradients, then of all squares.
fn named(config: &ModelConfig) -> Result<Vec<TensorName>> {
    let names: Vec<TensorName> = ModelTensors::names(config)?.into_iter().collect();
    let with = |prefix: &'static str| {
        names.iter().map(move |name| TensorName {
            name: format!("{prefix}.{}", name.name),
            shape: name.shape.clone(),
        })
    };
    Ok(with("mean").chain(with("square")).collect())
}

fn unread(path: &Path, error: std::io::Error) -> Error {
    let name = path.display().to_string();
    Error::input("train", name, "to be read", error)
}

fn unwritten(path: &Path, error: std::io::Error) -> Error {
    Error::file("train", path.display().to_string(), "to be written", error)
}
