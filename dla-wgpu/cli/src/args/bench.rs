//! The arguments of `dla bench`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{ArgGroup, Subcommand, ValueEnum};
use dla_core::Backbone;

use super::{Weights, at_least_one, backbone, chunk};

/// What to time.
#[derive(Debug, Subcommand)]
pub enum Bench {
    /// The bare operator at one shape
    #[command(after_help = "Example:\n  dla bench op --tokens 4096 --heads 8")]
    Op(BenchOp),
    /// A model's single tokens
    #[command(after_help = "Example:\n  dla bench decode --preset mamba2-780m --weights f16")]
    Decode(BenchModel),
    /// A model's long prompts
    #[command(after_help = "Example:\n  dla bench prefill --preset mamba2-780m --tokens 4096")]
    Prefill(BenchModel),
    /// The steps of a training run; nothing is kept of it
    #[command(after_help = "Example:\n  dla bench train --config run.toml")]
    Train(BenchTrain),
}

/// Arguments of `dla bench decode` and `dla bench prefill`.
#[derive(Clone, Debug, clap::Args)]
#[command(group = ArgGroup::new("which").required(true).args(["model", "preset"]))]
pub struct BenchModel {
    /// A model directory
    #[arg(long, value_name = "DIR")]
    pub model: Option<PathBuf>,
    /// The sizes of a known model, with random weights
    #[arg(long, value_enum)]
    pub preset: Option<Preset>,
    /// States of a preset's caches; 1 is a plain model
    #[arg(long, value_name = "K", default_value_t = 30, value_parser = at_least_one())]
    pub capacity: usize,
    /// How the weights are kept
    #[arg(long, value_enum, default_value_t = Weights::F16)]
    pub weights: Weights,
    /// Sequences side by side
    #[arg(long, default_value_t = 1, value_parser = at_least_one())]
    pub batch: usize,
    /// Tokens of the prompt
    #[arg(long, default_value_t = 1024, value_parser = at_least_one())]
    pub tokens: usize,
    /// Runs of which the median is taken
    #[arg(long, default_value_t = 20, value_parser = at_least_one())]
    pub runs: usize,
}

/// Sizes of known models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Preset {
    /// Mamba-2 with 24 layers of width 768
    #[value(name = "mamba2-130m")]
    Mamba2Of130M,
    /// Mamba-2 with 48 layers of width 1536
    #[value(name = "mamba2-780m")]
    Mamba2Of780M,
    /// Gated DeltaNet with 24 layers of width 1024
    #[value(name = "gdn-340m")]
    GatedDeltaOf340M,
}

/// Arguments of `dla bench op`; the defaults are the Mamba-2 780M shape.
#[derive(Clone, Debug, clap::Args)]
pub struct BenchOp {
    /// Sequences
    #[arg(long, default_value_t = 1)]
    pub batch: usize,
    /// Tokens of each
    #[arg(long, default_value_t = 16384, value_parser = at_least_one())]
    pub tokens: usize,
    /// Value heads
    #[arg(long, default_value_t = 48)]
    pub heads: usize,
    /// Key groups
    #[arg(long, default_value_t = 1)]
    pub groups: usize,
    /// Key width
    #[arg(long, default_value_t = 128)]
    pub key_dim: usize,
    /// Value width
    #[arg(long, default_value_t = 64)]
    pub value_dim: usize,
    /// States of a cache
    #[arg(long, default_value_t = 30)]
    pub capacity: usize,
    /// What happens to the states at a token
    #[arg(long, default_value = "decay", value_parser = backbone())]
    pub backbone: Backbone,
    /// Threshold; the tokens are unrelated, so that below 1.2 every one is a boundary
    #[arg(long, default_value_t = 0.6)]
    pub tau: f32,
    /// Time the gradients too
    #[arg(long)]
    pub gradients: bool,
    /// Tokens of a chunk
    #[arg(long, value_name = "C", value_parser = chunk())]
    pub chunk: Option<NonZeroUsize>,
    /// f32 inputs and outputs instead of f16
    #[arg(long)]
    pub f32: bool,
    /// Most MiB of one workspace buffer
    #[arg(long, value_name = "MIB")]
    pub workspace: Option<u64>,
    /// Runs of which the median is taken
    #[arg(long, default_value_t = 5, value_parser = at_least_one())]
    pub runs: usize,
}

impl BenchOp {
    /// The sizes.
    pub fn dims(&self) -> dla_core::Dims {
        dla_core::Dims {
            batch: self.batch,
            tokens: self.tokens,
            heads: self.heads,
            groups: self.groups,
            key_dim: self.key_dim,
            value_dim: self.value_dim,
            capacity: self.capacity,
        }
    }
}

/// Arguments of `dla bench train`.
#[derive(Clone, Debug, clap::Args)]
pub struct BenchTrain {
    /// The run's settings
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Start from a model directory instead of new weights
    #[arg(long, value_name = "DIR")]
    pub init: Option<PathBuf>,
    /// Steps of which the median is taken
    #[arg(long, default_value_t = 20, value_parser = at_least_one())]
    pub runs: usize,
}
