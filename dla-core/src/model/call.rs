//! What a call of a model is asked for, and what it answers.

use super::config::ModelConfig;
use crate::decisions::{Decisions, Trace};
use crate::error::{Error, Result};

/// The tokens whose logits are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rows {
    /// None: the tokens are only taken in.
    None,
    /// The last token's, which the next one is drawn from.
    #[default]
    Last,
    /// Every token's.
    All,
}

impl Rows {
    /// How many of `tokens` tokens these are.
    ///
    /// ```
    /// use dla_core::model::Rows;
    /// assert_eq!((Rows::Last.of(5), Rows::Last.of(0), Rows::All.of(5)), (1, 0, 5));
    /// ```
    pub fn of(self, tokens: usize) -> usize {
        match self {
            Self::None => 0,
            Self::Last => tokens.min(1),
            Self::All => tokens,
        }
    }
}

/// How a model takes tokens in.
#[derive(Clone, Copy, Debug, Default)]
pub struct Call<'a> {
    /// The tokens whose logits are wanted.
    pub logits: Rows,
    /// Gives what every layer measured and decided, 13 bytes a token and head.
    pub traces: bool,
    /// Decisions to follow instead of the schedule's own: those of each layer, `[1, tokens, heads]`.
    pub replay: Option<&'a [Decisions]>,
}

impl<'a> Call<'a> {
    /// The decisions that layer `layer` is to follow.
    pub fn replay_of(&self, layer: usize) -> Option<&'a Decisions> {
        self.replay.and_then(|layers| layers.get(layer))
    }

    /// Refuses decisions that are not one set for each layer of the model.
    ///
    /// # Errors
    /// When their number is another.
    pub fn check(&self, config: &ModelConfig) -> Result<()> {
        match self.replay {
            Some(layers) if layers.len() != config.layers => {
                let expected = format!("decisions of {} layers", config.layers);
                Err(Error::input("model", "replay", expected, layers.len()))
            }
            _ => Ok(()),
        }
    }
}

/// What a call of a model gives.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reply {
    /// The logits asked for, `[rows, vocabulary]`.
    pub logits: Vec<f32>,
    /// What each layer measured and decided, `[1, tokens, heads]`; none unless asked for, and empty for softmax
    /// attention.
    pub traces: Vec<Trace>,
    /// λ of the last token in each layer, `[heads, capacity]` by rank: the newest state's first, under Fenwick too. Only
    /// the entries of live states mean anything; empty without tokens, and for softmax attention.
    pub lambda: Vec<Vec<f32>>,
}

/// What one layer's operator tells beside its output.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// What it measured and decided.
    pub(super) trace: Trace,
    /// λ of the last token, as in [`Reply`].
    pub(super) lambda: Vec<f32>,
}
