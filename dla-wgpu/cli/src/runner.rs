//! What runs a model, behind one face: where the choice of a backend is made and told.

use std::path::Path;

use dla_core::model::{Call, ModelConfig, Reply, Rows};
use dla_core::sample::{Candidates, Needs, largest};
use dla_core::{Error, Model, ModelSession, Result, Trace};

use crate::args::{Backend, Global};
use crate::{progress, report};

/// A model, ready to run.
#[derive(Debug)]
pub enum Runner {
    /// The reference in plain Rust.
    Cpu(Model),
}

/// One sequence of a runner's model.
#[derive(Debug)]
pub enum Sequence {
    /// On the CPU.
    Cpu(ModelSession),
}

/// What the next token is drawn from.
#[derive(Clone, Debug, PartialEq)]
pub struct Next {
    /// The logits after the last token.
    pub logits: Logits,
    /// What each layer measured and decided, `[1, tokens, heads]`.
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

impl Runner {
    /// Reads the model directory `folder` and follows `--backend` and `--adapter`.
    ///
    /// # Errors
    /// When the model is refused or a backend was asked for that cannot run it.
    pub fn load(folder: &Path, global: &Global) -> Result<Self> {
        only_cpu(global)?;
        let model = progress::watched("loading the model", || Model::load(folder))?;
        Ok(Self::Cpu(model))
    }

    /// The kind of its backend, as `--backend` spells it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Cpu(_) => "cpu",
        }
    }

    /// Its backend's name for people.
    pub fn name(&self) -> String {
        match self {
            Self::Cpu(_) => "the CPU".into(),
        }
    }

    /// The model's settings.
    pub fn config(&self) -> &ModelConfig {
        match self {
            Self::Cpu(model) => model.config(),
        }
    }

    /// A sequence before its first token.
    ///
    /// # Errors
    /// When a device has no room for its states.
    pub fn start(&self) -> Result<Sequence> {
        match self {
            Self::Cpu(model) => Ok(Sequence::Cpu(model.session())),
        }
    }

    /// Takes `ids` in; gives the logits asked for and what every layer decided.
    ///
    /// # Errors
    /// Those of [`Model::run`].
    pub fn run(&self, sequence: &mut Sequence, ids: &[u32], call: &Call<'_>) -> Result<Reply> {
        match (self, sequence) {
            (Self::Cpu(model), Sequence::Cpu(session)) => model.run(session, ids, call),
        }
    }

    /// Takes `ids`, at least one, in; gives what a sampler that has these `needs` draws the next one from.
    ///
    /// # Errors
    /// Those of [`Runner::run`], and logits that are no numbers.
    pub fn top(&self, sequence: &mut Sequence, ids: &[u32], needs: Needs) -> Result<Next> {
        let call = Call {
            logits: Rows::Last,
            replay: None,
        };
        let Reply { logits, traces } = self.run(sequence, ids, &call)?;
        let logits = match needs {
            Needs::All => Logits::Row(logits),
            Needs::Top(k) => Logits::Top {
                vocabulary: logits.len(),
                largest: largest(&logits, k)?,
            },
        };
        Ok(Next { logits, traces })
    }
}

/// Models have no GPU path: refuses where one was insisted on, and says so where the choice was free.
fn only_cpu(global: &Global) -> Result<()> {
    match global.backend {
        Backend::Cpu => Ok(()),
        Backend::Auto if global.adapter.is_none() => {
            report::note("running on the CPU: models have no GPU path");
            Ok(())
        }
        Backend::Auto | Backend::Gpu => {
            let (expected, got) = ("the CPU, for models have no GPU path", "an adapter");
            Err(Error::unsupported("dla", "--backend", expected, got).advise("use --backend cpu"))
        }
    }
}
