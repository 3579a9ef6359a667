//! What a trained model can do: tasks asked of any [`Reader`].

pub mod bound;
pub mod grid;
pub mod needles;
pub mod states;
pub mod text;

use dla_core::model::ModelConfig;
use dla_core::{Error, Result};

use crate::batch::Batch;
use crate::scores::{Reader, Totals};

/// How well the targets of `batch` are predicted.
///
/// # Errors
/// Those of [`Reader::score`], and when a loss is not finite.
pub fn totals(reader: &impl Reader, batch: &Batch) -> Result<Totals> {
    let mut totals = Totals::default();
    for i in 0..batch.sequences {
        let (ids, targets) = batch.sequence(i);
        totals.add(reader.score(ids, targets)?.totals(targets));
    }
    totals.sound("eval", "logits")
}

/// Refuses what leaves no states to look at: a model without any, and no ids.
fn states_of(config: &ModelConfig, ids: &[u32]) -> Result<()> {
    if config.attention().is_some() {
        let (expected, got) = ("a model with states", "softmax attention");
        return Err(Error::unsupported("eval", "--model", expected, got));
    }
    match ids.is_empty() {
        true => Err(Error::input("eval", "text", "at least one token", "none")),
        false => Ok(()),
    }
}
