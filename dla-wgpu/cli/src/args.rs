//! The command line, as users type it.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, RangedU64ValueParser, TypedValueParser};
use clap::{ArgGroup, CommandFactory, Parser, Subcommand, ValueEnum};
use dla_core::dims::MAX_CAPACITY;
use dla_core::{Backbone, Error, Result};
use dla_wgpu::nn::WeightType;

pub use self::bench::{Bench, BenchModel, BenchOp, BenchTrain, Preset};

mod bench;
mod help;

/// Dynamic Linear Attention: linear attention with a small, time-ordered cache of memory states.
///
/// Without a command, dla reads a short text and shows where its memory states open and merge.
#[derive(Debug, Parser)]
#[command(
    name = "dla",
    version,
    after_help = "Example:\n  dla --backend cpu\n  dla op --input case.safetensors --output out.safetensors"
)]
pub struct Args {
    /// How a GPU keeps the weights of the demonstration's model [default: f32]
    #[arg(long, value_enum)]
    pub weights: Option<Weights>,
    /// What every command takes.
    #[command(flatten)]
    pub global: Global,
    /// The command; none is the demonstration.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Options of every command.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Options of every command")]
pub struct Global {
    /// Where to run
    #[arg(long, global = true, value_enum, default_value_t = Backend::Auto)]
    pub backend: Backend,
    /// Take the adapter whose name contains NAME; `dla devices` lists them
    #[arg(long, global = true, value_name = "NAME")]
    pub adapter: Option<String>,
    /// Print JSON instead of text
    #[arg(long, global = true)]
    pub json: bool,
}

impl Args {
    /// The command line's grammar. Every option that takes a value takes negative numbers, so that its own check speaks of
    /// them, not the search for an option `-1`.
    pub fn grammar() -> clap::Command {
        fn with_negatives(command: clap::Command) -> clap::Command {
            let negatives = |arg: clap::Arg| {
                let takes = arg.get_action().takes_values() && !arg.is_allow_hyphen_values_set();
                arg.allow_negative_numbers(takes)
            };
            let command = command.mut_args(negatives);
            command.mut_subcommands(with_negatives)
        }
        with_negatives(Self::command())
    }

    /// Refuses options that contradict each other.
    ///
    /// # Errors
    /// When an adapter is named for the CPU, or weights of the demonstration for a command.
    pub fn check(&self) -> Result<()> {
        if self.weights.is_some() && self.command.is_some() {
            let (expected, got) = ("it after the command", "it before the command");
            return Err(Error::input("dla", "--weights", expected, got));
        }
        self.global.check()
    }
}

/// An error of a library's argument, as `command` names its options.
#[must_use]
pub fn option(error: Error, command: &'static str) -> Error {
    let name = format!("--{}", error.argument().replace('_', "-"));
    error.at(name).within(command)
}

impl Global {
    /// Refuses options that contradict each other.
    ///
    /// # Errors
    /// When an adapter is named for the CPU.
    pub fn check(&self) -> Result<()> {
        match &self.adapter {
            Some(name) if self.backend == Backend::Cpu => Err(Error::input(
                "dla",
                "--adapter",
                "none with --backend cpu",
                name,
            )),
            _ => Ok(()),
        }
    }
}

/// Where the operator runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Backend {
    /// The best adapter, else the CPU.
    Auto,
    /// An adapter, or an error.
    Gpu,
    /// The reference in plain Rust.
    Cpu,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the adapters, their features and limits
    #[command(after_help = "Example:\n  dla devices --json")]
    Devices,
    /// Run the operator on arrays from a safetensors file
    #[command(after_help = help::OP_EXAMPLE, after_long_help = format!("{}\n{}", help::CASE, help::OP_EXAMPLE))]
    Op(Op),
    /// Run a model on token ids and write its logits
    #[command(after_help = help::LOGITS_EXAMPLE, after_long_help = format!("{}\n{}", help::LOGITS, help::LOGITS_EXAMPLE))]
    Logits(Logits),
    /// Generate text
    #[command(after_help = help::GENERATE_EXAMPLE, after_long_help = format!("{}\n{}", help::GENERATE, help::GENERATE_EXAMPLE))]
    Generate(Generate),
    /// Show where a model's memory states open and merge in a text
    #[command(
        after_help = "Example:\n  dla segment --model mamba2-780m-dla --text-file story.txt --picture story.html"
    )]
    Segment(Segment),
    /// Tell what a model directory holds and whether it can be run
    #[command(after_help = "Example:\n  dla inspect --model mamba2-780m")]
    Inspect(Inspect),
    /// Turn a Mamba-2 or Gated DeltaNet checkpoint into DLA, with the same outputs until it is tuned
    #[command(
        after_help = "Example:\n  dla upcycle --model mamba2-780m --output mamba2-780m-dla --capacity 30"
    )]
    Upcycle(Upcycle),
    /// Train a model, from scratch or from a checkpoint
    #[command(
        after_help = "Example:\n  dla train --config dla-wgpu/train/configs/mqar.toml\n\nCtrl-C ends a run after the step it is in, with a checkpoint; --resume goes on from there."
    )]
    Train(Train),
    /// Measure a model: a text's bits per byte, associative recall, needles found, states, bounds
    #[command(
        after_help = "Examples:\n  dla eval --model runs/text/step-00004000 --task text --text-file texts --held-out\n  dla eval --model runs/niah/step-00004000 --task niah --lengths 512,1024 --picture niah.svg\n  dla eval --model runs/mqar/step-00003000 --task mqar --pairs 4,8,16 --grid K=8,16:tau=0.6,0.9"
    )]
    Eval(Eval),
    /// Time the passes on this machine
    #[command(subcommand)]
    Bench(Bench),
}

fn at_least_one() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..)
}

fn chunk() -> impl TypedValueParser<Value = NonZeroUsize> {
    RangedU64ValueParser::<usize>::new()
        .range(1..=1024)
        .try_map(NonZeroUsize::try_from)
}

fn capacity() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=MAX_CAPACITY as u64)
}

fn threshold(word: &str) -> Result<f32, String> {
    let tau: f32 = word.parse().map_err(|error| format!("{error}"))?;
    match tau.is_nan() {
        true => Err("expected a number".into()),
        false => Ok(tau),
    }
}

fn backbone() -> impl TypedValueParser<Value = Backbone> {
    PossibleValuesParser::new(["plain", "decay", "delta"]).try_map(|word| word.parse::<Backbone>())
}

/// Arguments of `dla op`.
#[derive(Debug, clap::Args)]
pub struct Op {
    /// The case: q, k, v, lambda and what else the operator takes
    #[arg(long, value_name = "FILE")]
    pub input: PathBuf,
    /// Where the outputs go; an existing file is replaced once the run has succeeded
    #[arg(long, value_name = "FILE")]
    pub output: PathBuf,
    /// Work in chunks of C tokens [CPU default: token by token]
    #[arg(long, value_name = "C", value_parser = chunk())]
    pub chunk: Option<NonZeroUsize>,
}

/// A model, and how a device keeps its weights.
#[derive(Debug, clap::Args)]
pub struct ModelArgs {
    /// The model directory: config.json and model.safetensors, or the index of its shards; a tokenizer.json makes the
    /// tokens, without one they are bytes
    #[arg(long, value_name = "DIR")]
    pub model: PathBuf,
    /// How a GPU keeps the weights; the CPU always computes with f32
    #[arg(long, value_enum, default_value_t = Weights::F32)]
    pub weights: Weights,
}

/// How a GPU keeps a model's weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Weights {
    /// 32 bits
    F32,
    /// 16 bits, rounded to nearest: for files of f16 without loss
    F16,
    /// 8 bits with a scale for every 32 of a row
    Int8,
}

impl From<Weights> for WeightType {
    fn from(weights: Weights) -> Self {
        match weights {
            Weights::F32 => Self::F32,
            Weights::F16 => Self::F16,
            Weights::Int8 => Self::I8,
        }
    }
}

/// Arguments of `dla logits`.
#[derive(Debug, clap::Args)]
pub struct Logits {
    /// The model.
    #[command(flatten)]
    pub model: ModelArgs,
    /// The token ids: a safetensors file with input_ids, i64, by sequence and token
    #[arg(long, value_name = "FILE")]
    pub ids: PathBuf,
    /// Where the logits go; an existing file is replaced once the run has succeeded
    #[arg(long, value_name = "FILE")]
    pub output: PathBuf,
    /// Take the first P tokens at once, the others one at a time [default: all at once]
    #[arg(long, value_name = "P")]
    pub prefill: Option<usize>,
    /// Write what every layer and head decided
    #[arg(long, value_name = "FILE")]
    pub decisions: Option<PathBuf>,
    /// Follow the decisions of such a file instead of the model's own
    #[arg(long, value_name = "FILE")]
    pub replay: Option<PathBuf>,
}

/// Arguments of `dla segment`.
#[derive(Debug, clap::Args)]
pub struct Segment {
    /// The model.
    #[command(flatten)]
    pub model: ModelArgs,
    /// The text; without a tokenizer.json in the model directory its bytes are the tokens; - is stdin
    #[arg(long, value_name = "FILE")]
    pub text_file: PathBuf,
    /// The layer to show, counted from 0 [default: the one with the most telling head]
    #[arg(long, value_name = "N")]
    pub layer: Option<usize>,
    /// The head to show, counted from 0 [default: the most telling one]
    #[arg(long, value_name = "N")]
    pub head: Option<usize>,
    /// Draw all layers and heads: a page to explore (.html) or a still picture (.svg)
    #[arg(long, value_name = "FILE")]
    pub picture: Option<PathBuf>,
}

/// Arguments of `dla train`.
#[derive(Debug, clap::Args)]
pub struct Train {
    /// The settings, a TOML file; docs/training.md tells all of them
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Go on from the newest checkpoint in the output folder
    #[arg(long, conflicts_with = "init")]
    pub resume: bool,
    /// Start with the weights of this model directory
    #[arg(long, value_name = "DIR")]
    pub init: Option<PathBuf>,
}

/// What `dla eval` measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Task {
    /// Bits per byte of texts
    Text,
    /// Multi-query associative recall
    Mqar,
    /// Needles found in haystacks, by kind, length and depth
    Niah,
    /// The deviation bound of the model's states against the best ones, by layer and head
    Bound,
    /// How often states open and merge, by layer and head
    States,
}

/// Arguments of `dla eval`.
#[derive(Debug, clap::Args)]
pub struct Eval {
    /// The model.
    #[command(flatten)]
    pub model: ModelArgs,
    /// What to measure
    #[arg(long, value_enum)]
    pub task: Task,
    /// Texts: a file, or a folder with files *.txt; may be given more than once
    #[arg(long, value_name = "PATH")]
    pub text_file: Vec<PathBuf>,
    /// Take only the last 5% of each text, which training holds out
    #[arg(long)]
    pub held_out: bool,
    /// Tokens: of a window (text, 1024), of a sequence (mqar, 256; niah, 1024; several may be named), of the text's beginning
    /// (bound, 512; states, 4096)
    #[arg(long, alias = "length", value_name = "T", value_delimiter = ',')]
    pub lengths: Vec<usize>,
    /// mqar: pairs of a key and a value
    #[arg(
        long,
        value_name = "P",
        value_delimiter = ',',
        default_value = "4,8,16"
    )]
    pub pairs: Vec<usize>,
    /// niah: the kinds [default: all eight, or those without texts]
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub kinds: Vec<String>,
    /// niah: how many depths from 0 to 100 percent
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = RangedU64ValueParser::<u64>::new().range(1..=101))]
    pub depths: u64,
    /// Examples of each kind, length and depth, or of each number of pairs
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = at_least_one())]
    pub examples: usize,
    /// The seed of the examples
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// niah: draw the heat map, as .svg or .html
    #[arg(long, value_name = "FILE")]
    pub picture: Option<PathBuf>,
    /// Measure with other capacities and thresholds, each with each: K=10,20,30:τ=0.5,0.6
    #[arg(long, value_name = "GRID")]
    pub grid: Option<String>,
}

/// Arguments of `dla generate`.
#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("text").required(true).args(["prompt", "prompt_file"]))]
pub struct Generate {
    /// The model.
    #[command(flatten)]
    pub model: ModelArgs,
    /// The text that goes on
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub prompt: Option<String>,
    /// A file with that text; - is stdin
    #[arg(long, value_name = "FILE")]
    pub prompt_file: Option<PathBuf>,
    /// Tokens to generate, unless the text ends before [default: none where the model's files name an end of text, else
    /// 256]
    #[arg(long, value_name = "N", value_parser = at_least_one())]
    pub max_tokens: Option<usize>,
    /// Divides the logits; 0 always takes the most probable token
    #[arg(
        long,
        value_name = "X",
        default_value_t = 1.0,
        allow_negative_numbers = true
    )]
    pub temperature: f32,
    /// Draw from the N most probable tokens; 0 is all
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub top_k: usize,
    /// Draw from the most probable tokens that reach probability X together
    #[arg(
        long,
        value_name = "X",
        default_value_t = 1.0,
        allow_negative_numbers = true
    )]
    pub top_p: f32,
    /// Draw from tokens at least X times as probable as the most probable one
    #[arg(
        long,
        value_name = "X",
        default_value_t = 0.0,
        allow_negative_numbers = true
    )]
    pub min_p: f32,
    /// Above 1, make tokens less probable that came before
    #[arg(
        long,
        value_name = "X",
        default_value_t = 1.0,
        allow_negative_numbers = true
    )]
    pub repetition_penalty: f32,
    /// Last tokens that the repetition penalty sees, the prompt's among them
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub repetition_window: usize,
    /// Starts the random numbers
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// End before this text; may be given several times
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub stop: Vec<String>,
    /// Tell where each layer and head opened and merged states
    #[arg(long)]
    pub show_states: bool,
}

/// Arguments of `dla inspect`.
#[derive(Debug, clap::Args)]
pub struct Inspect {
    /// The model directory
    #[arg(long, value_name = "DIR")]
    pub model: PathBuf,
}

/// Arguments of `dla upcycle`.
#[derive(Debug, clap::Args)]
pub struct Upcycle {
    /// The plain model's directory
    #[arg(long, value_name = "DIR")]
    pub model: PathBuf,
    /// The new model's directory, which must not exist yet
    #[arg(long, value_name = "DIR")]
    pub output: PathBuf,
    /// States a cache may hold
    #[arg(long, value_name = "K", default_value_t = 30, value_parser = capacity())]
    pub capacity: usize,
    /// The threshold every head starts with
    #[arg(long, value_name = "X", default_value_t = 0.6, value_parser = threshold)]
    pub tau: f32,
}
