//! What a trained model can do: tasks asked of any [`Reader`].

pub mod bound;
pub mod grid;
pub mod needles;
pub mod states;
pub mod text;

use dla_core::Result;

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
