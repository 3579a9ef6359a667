//! The settings of a run: a TOML file, every key of which is told in `docs/training.md`.

mod compute;
mod data;
mod model;

use std::path::{Path, PathBuf};

use dla_core::dla::gate::Gate;
use dla_core::model::training::{AdamWOptions, LearningRate, Theta};
use dla_core::{Error, Result, file};
use serde::{Deserialize, Serialize};

pub(crate) use self::compute::is_scale;
pub use self::compute::{ComputeSettings, LossScaling, Precision, ScalingWord};
pub use self::data::{DataSettings, MqarSettings, NiahSettings, Part, TextSettings};
pub use self::model::{DlaSettings, ModelSettings};
use crate::random::mix;

/// The settings of a run.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The seed of weights and data.
    #[serde(default)]
    pub seed: u64,
    /// Steps in all.
    pub steps: u64,
    /// The folder for checkpoints, metrics and the curve.
    #[serde(skip_serializing)]
    pub output: PathBuf,
    /// The model; without it, that of the checkpoint which the run starts from.
    pub model: Option<ModelSettings>,
    /// What is learned.
    pub data: DataSettings,
    /// How much of it at a time.
    #[serde(default)]
    pub batch: BatchSettings,
    /// How it is learned.
    #[serde(default)]
    pub optimiser: OptimiserSettings,
    /// What a step is computed in.
    #[serde(default, skip_serializing_if = "ComputeSettings::is_default")]
    pub compute: ComputeSettings,
    /// What happens how often.
    #[serde(default, skip_serializing)]
    pub every: EverySettings,
}

/// The sizes of a step.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct BatchSettings {
    /// Sequences taken side by side.
    pub sequences: usize,
    /// Batches whose gradients make one step.
    pub accumulation: usize,
}

impl Default for BatchSettings {
    fn default() -> Self {
        Self {
            sequences: 32,
            accumulation: 1,
        }
    }
}

/// AdamW and the learning rate.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct OptimiserSettings {
    /// The largest learning rate.
    pub rate: f64,
    /// The rate at the end; a tenth of `rate` if not given.
    pub least_rate: Option<f64>,
    /// Steps of the warm-up; a twentieth of all if not given.
    pub warmup: Option<u64>,
    /// β₁.
    pub beta1: f32,
    /// β₂.
    pub beta2: f32,
    /// ε.
    pub epsilon: f32,
    /// Decay of the weights.
    pub weight_decay: f32,
    /// The most that the norm of all gradients may be.
    pub clip: f32,
    /// The embeddings decay too.
    pub decay_embeddings: bool,
}

impl Default for OptimiserSettings {
    fn default() -> Self {
        let options = AdamWOptions::default();
        Self {
            rate: 1e-3,
            least_rate: None,
            warmup: None,
            beta1: options.beta1,
            beta2: options.beta2,
            epsilon: options.epsilon,
            weight_decay: options.weight_decay,
            clip: options.clip,
            decay_embeddings: options.decay_embeddings,
        }
    }
}

/// Intervals, in steps; 0 is never.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct EverySettings {
    /// Between two lines of metrics.
    pub log: u64,
    /// Between two evaluations.
    pub evaluate: u64,
    /// Between two checkpoints; there is one at the end in any case.
    pub checkpoint: u64,
    /// Batches of an evaluation.
    pub evaluation_batches: u64,
    /// Checkpoints that are kept, the newest; 0 keeps all.
    pub keep: usize,
}

impl Default for EverySettings {
    fn default() -> Self {
        Self {
            log: 10,
            evaluate: 250,
            checkpoint: 1000,
            evaluation_batches: 4,
            keep: 2,
        }
    }
}

impl Settings {
    /// Reads the settings in the file `path`.
    ///
    /// # Errors
    /// For a file that cannot be read, TOML that is none, unknown keys, and values outside their ranges.
    pub fn open(path: &Path) -> Result<Self> {
        let text = file::read_text("train", path)?;
        Self::parse(&path.display().to_string(), &text)
    }

    /// Reads the settings in `text`; `name` is what errors call it.
    ///
    /// # Errors
    /// As [`Settings::open`].
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        let settings: Self = toml::from_str(text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start.min(text.len()));
            let line = text.as_bytes()[..start]
                .iter()
                .filter(|&&b| b == b'\n')
                .count()
                + 1;
            let argument = format!("{name}, line {line}");
            let expected = "the settings that docs/training.md lists";
            Error::input("train", argument, expected, in_words(error.message()))
        })?;
        settings.check()?;
        Ok(settings)
    }

    fn check(&self) -> Result<()> {
        let sizes = [
            ("steps", self.steps, 32),
            ("batch.sequences", self.batch.sequences as u64, 16),
            ("batch.accumulation", self.batch.accumulation as u64, 16),
            (
                "every.evaluation_batches",
                self.every.evaluation_batches,
                32,
            ),
        ];
        for (name, size, most) in sizes {
            if !(1..=1 << most).contains(&size) {
                let expected = format!("1 to 2^{most}");
                return Err(Error::input("train", name, expected, size));
            }
        }
        self.compute.check()?;
        self.rate().check().map_err(named("optimiser"))?;
        self.theta().check().map_err(named("model.dla"))?;
        self.adamw().check().map_err(named("optimiser"))
    }

    /// The learning rate.
    pub fn rate(&self) -> LearningRate {
        let optimiser = self.optimiser;
        LearningRate {
            peak: optimiser.rate,
            least: optimiser.least_rate.unwrap_or(optimiser.rate / 10.0),
            warmup: optimiser.warmup.unwrap_or(self.steps / 20),
            steps: self.steps,
        }
    }

    /// The gate's θ.
    pub fn theta(&self) -> Theta {
        let dla = self.model.as_ref().and_then(|model| model.dla.as_ref());
        let start = dla.map_or(Gate::default().theta, |dla| dla.theta);
        let end = dla.and_then(|dla| dla.theta_end);
        Theta {
            start,
            end: end.unwrap_or(start),
            steps: self.steps,
        }
    }

    /// The optimiser's options.
    pub fn adamw(&self) -> AdamWOptions {
        let optimiser = self.optimiser;
        AdamWOptions {
            beta1: optimiser.beta1,
            beta2: optimiser.beta2,
            epsilon: optimiser.epsilon,
            weight_decay: optimiser.weight_decay,
            clip: optimiser.clip,
            decay_embeddings: optimiser.decay_embeddings,
        }
    }

    /// A number that tells these settings from others, but for where the output goes and how often it is
    /// written.
    ///
    /// # Errors
    /// None that a settings file leads to.
    pub fn hash(&self) -> Result<u64> {
        let bytes = self.json()?.into_bytes().into_iter();
        Ok(bytes.fold(0, |sum, byte| mix(sum ^ u64::from(byte))))
    }

    /// What [`Settings::hash`] tells apart, to be kept and compared by name.
    ///
    /// # Errors
    /// None that a settings file leads to.
    pub fn options(&self) -> Result<serde_json::Value> {
        serde_json::from_str(&self.json()?).map_err(unspelled)
    }

    fn json(&self) -> Result<String> {
        serde_json::to_string(self).map_err(unspelled)
    }
}

/// What is wrong with a value, without the names of Rust's types.
fn in_words(message: &str) -> String {
    let types = [
        ("u64", "a whole number of at least 0"),
        ("usize", "a whole number of at least 0"),
        ("f64", "a number"),
        ("f32", "a number"),
        ("a sequence", "a list, as in [\"a\"]"),
    ];
    let mut text = message.trim().to_owned();
    for (name, meant) in types {
        let (expected, told) = (format!("expected {name}"), format!("expected {meant}"));
        if text.ends_with(&expected) {
            text = text.replace(&expected, &told);
        }
    }
    text
}

fn unspelled(error: serde_json::Error) -> Error {
    Error::input("train", "settings", "settings", error)
}

/// Names an error of `section`'s values as the settings do.
fn named(section: &'static str) -> impl Fn(Error) -> Error {
    move |error| {
        let name = match error.argument() {
            "peak" => "rate",
            "least" => "least_rate",
            other => other,
        };
        let argument = format!("{section}.{name}");
        error.at(argument).within("train")
    }
}
