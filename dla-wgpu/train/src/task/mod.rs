//! What models are trained and judged on.
//!
//! Example i of batch n is a pure function of the seed, n and i, so a run that goes on needs no state
//! of its data.

pub mod corpus;
pub mod mixture;
pub mod mqar;
pub mod niah;
pub mod text;

use dla_core::Result;

use crate::batch::{Batch, Example};
use crate::random::Random;

pub use corpus::Corpus;
pub use mixture::Mixture;
pub use mqar::Mqar;
pub use niah::Niah;
pub use text::Text;

/// Which part of the texts examples are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// What is trained on.
    Train,
    /// What is held out.
    Held,
}

impl Split {
    /// The seed of this part's examples, so that they differ even where no text is involved.
    fn seed(self, seed: u64) -> u64 {
        match self {
            Self::Train => seed,
            Self::Held => crate::random::mix(!seed),
        }
    }
}

/// A source of examples.
pub trait Task: Send + Sync {
    /// An example, drawn from `random`.
    ///
    /// # Errors
    /// When a text cannot be turned into tokens.
    fn example(&self, split: Split, random: &mut Random) -> Result<Example>;

    /// The smallest vocabulary that holds every id.
    fn vocabulary(&self) -> usize;

    /// A number that tells the task's texts from others.
    fn fingerprint(&self) -> u64 {
        0
    }

    /// Batch `number` of `sequences` examples under `seed`.
    ///
    /// # Errors
    /// Those of [`Task::example`].
    fn batch(&self, split: Split, seed: u64, number: u64, sequences: usize) -> Result<Batch> {
        let seed = split.seed(seed);
        let example = |i| self.example(split, &mut Random::of(seed, number, i));
        let examples = (0..sequences as u64).map(example);
        Ok(Batch::of(examples.collect::<Result<_>>()?))
    }
}
