//! A runner whose reading is counted and shown.

use std::cell::Cell;

use dla_core::Result;
use dla_core::model::{Call, ModelConfig, Reply};
use dla_train::Reader;

use crate::progress::{Progress, Unit};
use crate::runner::{Runner, Sequence};

/// Reads as the runner does; tokens, or texts that were begun, show how far it has come.
#[derive(Debug)]
pub(super) struct Counted<'a> {
    runner: &'a Runner,
    progress: Progress,
    unit: Unit,
    begun: Cell<u64>,
}

impl<'a> Counted<'a> {
    /// Before the first of `total` tokens.
    pub(super) fn tokens(runner: &'a Runner, total: usize) -> Self {
        Self::new(runner, Unit::Tokens, total)
    }

    /// Before the first of `total` texts.
    pub(super) fn texts(runner: &'a Runner, total: usize) -> Self {
        Self::new(runner, Unit::Texts, total)
    }

    fn new(runner: &'a Runner, unit: Unit, total: usize) -> Self {
        Self {
            runner,
            progress: Progress::new("measuring", unit, total),
            unit,
            begun: Cell::new(0),
        }
    }
}

impl Reader for Counted<'_> {
    type Sequence = Sequence;

    fn config(&self) -> &ModelConfig {
        self.runner.config()
    }

    fn start(&self) -> Result<Sequence> {
        let before = self.begun.replace(self.begun.get() + 1);
        if self.unit == Unit::Texts {
            self.progress.reach(before);
        }
        self.runner.start()
    }

    fn read(&self, sequence: &mut Sequence, ids: &[u32], call: &Call<'_>) -> Result<Reply> {
        let reply = self.runner.run(sequence, ids, call)?;
        if self.unit == Unit::Tokens {
            self.progress.advance(ids.len());
        }
        Ok(reply)
    }
}
