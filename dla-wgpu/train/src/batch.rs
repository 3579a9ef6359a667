//! What one call of a model learns from.

use dla_core::model::training;
use dla_core::nn::loss::IGNORED;

/// Sequences of one length, and what is to follow each of their tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Sequences, B.
    pub sequences: usize,
    /// Token ids `[sequences, tokens]`.
    pub ids: Vec<u32>,
    /// The id that each token is to predict, or [`IGNORED`], `[sequences, tokens]`.
    pub targets: Vec<u32>,
}

/// One sequence of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// Token ids `[tokens]`.
    pub ids: Vec<u32>,
    /// The id that each token is to predict, or [`IGNORED`], `[tokens]`.
    pub targets: Vec<u32>,
}

impl Example {
    /// The tokens `text`, of which those from place `first` on are to be predicted, followed by padding
    /// up to `tokens` that does not count.
    pub fn of_text(text: &[u32], first: usize, tokens: usize) -> Self {
        let target = |at: usize| match text.get(at + 1) {
            Some(&id) if at + 1 >= first => id,
            _ => IGNORED,
        };
        Self {
            ids: (0..tokens)
                .map(|at| text.get(at).copied().unwrap_or(0))
                .collect(),
            targets: (0..tokens).map(target).collect(),
        }
    }
}

impl Batch {
    /// These examples, which must have one length.
    pub fn of(examples: Vec<Example>) -> Self {
        let sequences = examples.len();
        let (mut ids, mut targets) = (Vec::new(), Vec::new());
        for example in examples {
            ids.extend(example.ids);
            targets.extend(example.targets);
        }
        Self {
            sequences,
            ids,
            targets,
        }
    }

    /// Tokens of a sequence.
    pub fn tokens(&self) -> usize {
        self.ids.len() / self.sequences.max(1)
    }

    /// Targets that count.
    pub fn counted(&self) -> usize {
        self.targets.iter().filter(|&&id| id != IGNORED).count()
    }

    /// As the training step takes it.
    pub fn borrow(&self) -> training::Batch<'_> {
        training::Batch {
            sequences: self.sequences,
            ids: &self.ids,
            targets: &self.targets,
            replay: None,
        }
    }

    /// Sequence `index` alone: its ids and targets.
    pub fn sequence(&self, index: usize) -> (&[u32], &[u32]) {
        let tokens = self.tokens();
        let range = index * tokens..(index + 1) * tokens;
        (&self.ids[range.clone()], &self.targets[range])
    }
}

#[cfg(test)]
mod tests {
    use super::{Batch, Example};
    use dla_core::nn::loss::IGNORED;

    #[test]
    fn only_the_asked_tokens_are_targets() {
        let example = Example::of_text(&[5, 6, 7, 8], 2, 5);
        assert_eq!(example.ids, [5, 6, 7, 8, 0]);
        assert_eq!(example.targets, [IGNORED, 7, 8, IGNORED, IGNORED]);
        let batch = Batch::of(vec![example.clone(), Example::of_text(&[1, 2], 0, 5)]);
        assert_eq!((batch.tokens(), batch.counted()), (5, 3));
        assert_eq!(batch.sequence(0).0, example.ids);
        assert_eq!(batch.sequence(1).1[0], 2);
    }
}
