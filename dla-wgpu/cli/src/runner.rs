//! What runs a model, behind one face: where the choice of a backend is made and told.

use std::path::Path;

use dla_core::checkpoint::Checkpoint;
use dla_core::model::{Call, ModelConfig, ModelSession, Reply, Rows, SLICE, Slices};
use dla_core::sample::{Candidates, Needs, largest};
use dla_core::{Model, Result, Trace};
use dla_wgpu::model::{self as device, Batch, Wanted};

use crate::args::{Global, ModelArgs, Weights};
use crate::backend::Engine;
use crate::{progress, report};

/// A model, ready to run.
#[derive(Debug)]
pub enum Runner {
    /// The reference in plain Rust.
    Cpu(Box<Model>),
    /// The model on a device.
    Gpu(device::Model),
}

/// One sequence of a runner's model.
#[derive(Debug)]
pub enum Sequence {
    /// On the CPU.
    Cpu(ModelSession),
    /// On a device: a batch of one.
    Gpu(Batch),
}

/// What the next token is drawn from.
#[derive(Clone, Debug, PartialEq)]
pub struct Next {
    /// The logits after the last token.
    pub logits: Logits,
    /// What each layer measured and decided, `[1, tokens, heads]`; may be missing unless asked for.
    pub traces: Vec<Trace>,
}

/// As many logits as were asked for.
#[derive(Clone, Debug, PartialEq)]
pub enum Logits {
    /// All, by id, `[vocabulary]`.
    Row(Vec<f32>),
    /// The largest of `vocabulary`, as [`largest()`] gives them.
    Top {
        /// Logits that there were.
        vocabulary: usize,
        /// Id and logit.
        largest: Vec<(u32, f32)>,
    },
}

impl Logits {
    /// What a sampler takes.
    pub fn candidates(&self) -> Candidates<'_> {
        match self {
            Self::Row(row) => Candidates::Row(row),
            Self::Top {
                vocabulary,
                largest,
            } => Candidates::Top {
                vocabulary: *vocabulary,
                largest,
            },
        }
    }
}

/// Opens a model directory; notes tensors that are there and not read.
///
/// # Errors
/// Those of [`Checkpoint::open`].
pub fn open(folder: &Path) -> Result<Checkpoint> {
    let checkpoint = Checkpoint::open(folder)?;
    if let Some(line) = skipped(&checkpoint) {
        report::note(&line);
    }
    Ok(checkpoint)
}

/// The tensors that are not read, in words.
pub fn skipped(checkpoint: &Checkpoint) -> Option<String> {
    const SHOWN: usize = 3;
    let skipped = checkpoint.skipped();
    let shown = skipped[..skipped.len().min(SHOWN)].join(", ");
    let more = if skipped.len() > SHOWN { ", …" } else { "" };
    let count = skipped.len();
    (count > 0).then(|| {
        format!("the index of the shards does not name {count} of their tensors, which are skipped: {shown}{more}")
    })
}

impl Runner {
    /// Reads a model directory and follows `--backend`, `--adapter` and `--weights`.
    ///
    /// # Errors
    /// When the model is refused or a backend was asked for that cannot run it.
    pub fn load(args: &ModelArgs, global: &Global) -> Result<Self> {
        Self::of(&open(&args.model)?, args.weights, global)
    }

    /// The same for a checkpoint that is open, a device keeping its weights as `weights`.
    ///
    /// # Errors
    /// As [`Runner::load`].
    pub fn of(checkpoint: &Checkpoint, weights: Weights, global: &Global) -> Result<Self> {
        match Engine::open(global)? {
            Engine::Cpu => Self::on_cpu(checkpoint),
            Engine::Gpu { gpu, or_cpu } => {
                let mut source = checkpoint.weights()?;
                let load =
                    device::Model::load(&gpu, checkpoint.config(), &mut source, weights.into());
                let loaded = progress::watched("loading the model", || gpu.block_on(load));
                match loaded {
                    Err(error) if or_cpu && error.is_unsupported() => {
                        report::note(&format!("running on the CPU: {error}"));
                        Self::on_cpu(checkpoint)
                    }
                    loaded => loaded.map(Self::Gpu),
                }
            }
        }
    }

    fn on_cpu(checkpoint: &Checkpoint) -> Result<Self> {
        let model = progress::watched("loading the model", || checkpoint.model())?;
        Ok(Self::Cpu(model.into()))
    }

    /// The kind of its backend, as `--backend` spells it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Cpu(_) => "cpu",
            Self::Gpu(_) => "gpu",
        }
    }

    /// Its backend's name for people.
    pub fn name(&self) -> String {
        match self {
            Self::Cpu(_) => "the CPU".into(),
            Self::Gpu(model) => model.gpu().info().name,
        }
    }

    /// The model's settings.
    pub fn config(&self) -> &ModelConfig {
        match self {
            Self::Cpu(model) => model.config(),
            Self::Gpu(model) => model.config(),
        }
    }

    /// τ of each head of layer `layer`; empty where the schedule has none.
    pub fn tau(&self, layer: usize) -> &[f32] {
        match self {
            Self::Cpu(model) => model.tau(layer),
            Self::Gpu(model) => model.tau(layer),
        }
    }

    /// A sequence before its first token.
    ///
    /// # Errors
    /// When a device has no room for its states.
    pub fn start(&self) -> Result<Sequence> {
        match self {
            Self::Cpu(model) => Ok(Sequence::Cpu(model.session())),
            Self::Gpu(model) => model.gpu().block_on(model.batch(1)).map(Sequence::Gpu),
        }
    }

    /// `ids` cut as a call with all of them cuts them, so that taking the slices one by one changes no bit.
    pub fn slices<'a>(&self, ids: &'a [u32]) -> Slices<'a> {
        let unit = match self {
            Self::Cpu(_) => SLICE,
            Self::Gpu(_) => device::TILES.into_iter().max().unwrap_or(SLICE),
        };
        Slices::new(ids, unit)
    }

    /// Takes `ids` in; gives what `call` asks for.
    ///
    /// # Errors
    /// Those of [`Model::run`], a device that fails, and logits that are not finite.
    pub fn run(&self, sequence: &mut Sequence, ids: &[u32], call: &Call<'_>) -> Result<Reply> {
        match (self, sequence) {
            (Self::Cpu(model), Sequence::Cpu(session)) => model.run(session, ids, call),
            (_, Sequence::Gpu(batch)) => {
                let replay = call.replay.map(|layers| [layers]);
                let wanted = Wanted {
                    logits: call.logits,
                    // The largest logit tells whether all are finite where none is asked for.
                    top: usize::from(call.logits == Rows::None),
                    traces: call.traces,
                    lambda: false,
                    replay: replay.as_ref().map(|items| &items[..]),
                };
                let taken = one(batch, ids, &wanted)?;
                Ok(Reply {
                    logits: taken.logits,
                    traces: taken.traces,
                    lambda: taken.lambda,
                })
            }
            (Self::Gpu(_), Sequence::Cpu(_)) => unreachable!("a sequence of another runner"),
        }
    }

    /// Takes `ids`, at least one, in; gives what a sampler that has these `needs` draws the next one from. A device
    /// hands over no more than that, and what was decided only if `traces`.
    ///
    /// # Errors
    /// Those of [`Runner::run`], and logits that are no numbers.
    pub fn top(
        &self,
        sequence: &mut Sequence,
        ids: &[u32],
        needs: Needs,
        traces: bool,
    ) -> Result<Next> {
        let vocabulary = self.config().vocabulary;
        if let (Sequence::Gpu(batch), Needs::Top(k)) = (&mut *sequence, needs) {
            let wanted = Wanted {
                logits: Rows::None,
                top: k,
                traces,
                lambda: false,
                replay: None,
            };
            let taken = one(batch, ids, &wanted)?;
            return Ok(Next {
                logits: Logits::Top {
                    vocabulary,
                    largest: taken.top,
                },
                traces: taken.traces,
            });
        }
        let call = Call {
            traces,
            ..Call::default()
        };
        let reply = self.run(sequence, ids, &call)?;
        let Reply { logits, traces, .. } = reply;
        let logits = match needs {
            Needs::All => Logits::Row(logits),
            Needs::Top(k) => Logits::Top {
                vocabulary,
                largest: largest(&logits, k)?,
            },
        };
        Ok(Next { logits, traces })
    }
}

impl dla_train::Reader for Runner {
    type Sequence = Sequence;

    fn config(&self) -> &ModelConfig {
        Self::config(self)
    }

    fn start(&self) -> Result<Sequence> {
        Self::start(self)
    }

    fn read(&self, sequence: &mut Sequence, ids: &[u32], call: &Call<'_>) -> Result<Reply> {
        self.run(sequence, ids, call)
    }
}

/// A call of a batch of one.
fn one(batch: &mut Batch, ids: &[u32], wanted: &Wanted<'_>) -> Result<device::Taken> {
    let gpu = batch.model().gpu().clone();
    let taken = gpu.block_on(batch.run(&[ids], wanted))?;
    Ok(taken.into_iter().next().unwrap_or_default())
}
