//! How well logits predict targets.

use std::borrow::Cow;

use dla_core::model::{Call, ModelConfig, Reply, Rows, SLICE, Slices};
use dla_core::nn::loss::IGNORED;
use dla_core::{Error, Model, ModelSession, Result};

use crate::engine::Scores;

/// A model that reads sequences, wherever it runs.
pub trait Reader {
    /// One sequence.
    type Sequence;

    /// The model's settings.
    fn config(&self) -> &ModelConfig;

    /// A sequence before its first token.
    ///
    /// # Errors
    /// When there is no room for its states.
    fn start(&self) -> Result<Self::Sequence>;

    /// Takes `ids` in; gives what `call` asks for.
    ///
    /// # Errors
    /// For ids that do not fit the model, and a machine that fails.
    fn read(&self, sequence: &mut Self::Sequence, ids: &[u32], call: &Call<'_>) -> Result<Reply>;

    /// How well each token of one sequence predicts its target.
    ///
    /// # Errors
    /// Those of [`Reader::start`] and [`Reader::read`].
    fn score(&self, ids: &[u32], targets: &[u32]) -> Result<Scores> {
        let mut sequence = self.start()?;
        let mut scores = Scores::default();
        let (mut slices, mut rest) = (Slices::new(ids, SLICE), targets);
        // A slice at a time, so that the logits of a large vocabulary stay small.
        while let Some(ids) = slices.take(1) {
            let (targets, later) = rest.split_at(ids.len().min(rest.len()));
            rest = later;
            let logits = match targets.iter().all(|&target| target == IGNORED) {
                true => Rows::None,
                false => Rows::All,
            };
            let call = Call {
                logits,
                ..Call::default()
            };
            let reply = self.read(&mut sequence, ids, &call)?;
            scores.add(&reply.logits, self.config().vocabulary, targets);
        }
        Ok(scores)
    }
}

impl Reader for Model {
    type Sequence = ModelSession;

    fn config(&self) -> &ModelConfig {
        Self::config(self)
    }

    fn start(&self) -> Result<ModelSession> {
        Ok(self.session())
    }

    fn read(&self, sequence: &mut ModelSession, ids: &[u32], call: &Call<'_>) -> Result<Reply> {
        self.run(sequence, ids, call)
    }
}

impl Scores {
    /// Adds `logits` `[targets, vocabulary]`, or none where no target counts.
    fn add(&mut self, logits: &[f32], vocabulary: usize, targets: &[u32]) {
        for (row, &target) in targets.iter().enumerate() {
            let (loss, hit) = match target {
                IGNORED => (0.0, false),
                target => score(&logits[row * vocabulary..][..vocabulary], target as usize),
            };
            self.losses.push(loss);
            self.hits.push(hit);
        }
    }

    /// Adds those of another sequence.
    pub fn extend(&mut self, other: Self) {
        self.losses.extend(other.losses);
        self.hits.extend(other.hits);
    }

    /// Sums over the targets that count.
    pub fn totals(&self, targets: &[u32]) -> Totals {
        let mut totals = Totals::default();
        let scores = self.losses.iter().zip(&self.hits).zip(targets);
        for ((&loss, &hit), _) in scores.filter(|(_, target)| **target != IGNORED) {
            totals.nats += f64::from(loss);
            totals.hits += usize::from(hit);
            totals.counted += 1;
        }
        totals
    }
}

/// −ln of the target's probability, and whether its logit is the largest; NaN is never a hit.
fn score(logits: &[f32], target: usize) -> (f32, bool) {
    let own = f64::from(logits[target]);
    let largest = logits
        .iter()
        .fold(f32::NEG_INFINITY, |a, &b| if b > a { b } else { a });
    let above = |&x: &f32| libm::exp(f64::from(x) - f64::from(largest));
    let sum: f64 = logits.iter().map(above).sum();
    let loss = f64::from(largest) - own + libm::log(sum);
    // Ties go to the first, as everywhere.
    let first = logits.iter().position(|&x| x == largest);
    (loss as f32, loss.is_finite() && first == Some(target))
}

/// What many targets come to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    /// The sum of the losses.
    pub nats: f64,
    /// Targets with the largest logit.
    pub hits: usize,
    /// Targets that counted.
    pub counted: usize,
}

impl Totals {
    /// Adds others.
    pub fn add(&mut self, other: Self) {
        self.nats += other.nats;
        self.hits += other.hits;
        self.counted += other.counted;
    }

    /// The mean loss in nats; NaN if nothing counted.
    pub fn loss(&self) -> f64 {
        self.nats / self.counted as f64
    }

    /// The same, if the loss is finite, as it is of every sound model.
    ///
    /// # Errors
    /// When it is not, or nothing counted.
    pub fn sound(
        self,
        operation: &'static str,
        argument: impl Into<Cow<'static, str>>,
    ) -> Result<Self> {
        let loss = self.loss();
        match loss.is_finite() {
            true => Ok(self),
            false => Err(Error::diverged(operation, argument, "a finite loss", loss)),
        }
    }

    /// The share of hits; NaN if nothing counted.
    pub fn accuracy(&self) -> f64 {
        self.hits as f64 / self.counted as f64
    }
}

#[cfg(test)]
mod tests {
    use super::{Scores, score};
    use dla_core::nn::loss::IGNORED;

    #[test]
    fn losses_and_hits_are_those_of_softmax() {
        let (loss, hit) = score(&[0.0, 2f32.ln(), 0.0], 1);
        assert!((f64::from(loss) - 2f64.ln()).abs() < 1e-6 && hit);
        assert_eq!(
            score(&[1.0, 1.0], 1),
            (2f32.ln(), false),
            "the first of equals"
        );
        assert!(!score(&[f32::NAN, 1.0], 1).1 && score(&[f32::NAN, 1.0], 1).0.is_nan());
        assert_eq!(score(&[-1e4, 1e4], 0).0, 2e4);
    }

    #[test]
    fn ignored_targets_do_not_count() {
        let mut scores = Scores::default();
        let targets = [IGNORED, 1, 0];
        scores.add(&[9.0, 0.0, 0.0, 9.0, 0.0, 9.0], 2, &targets);
        let totals = scores.totals(&targets);
        assert_eq!((totals.counted, totals.hits), (2, 1));
        assert!((totals.loss() - 4.5).abs() < 1e-3 && totals.accuracy() == 0.5);
        assert_eq!(totals.sound("eval", "logits").expect("a loss"), totals);
    }

    #[test]
    fn losses_that_are_no_numbers_are_told() {
        let mut scores = Scores::default();
        scores.add(&[1.0, 2.0, f32::NAN, 1.0], 2, &[1, 1]);
        for totals in [scores.totals(&[1, 1]), scores.totals(&[IGNORED; 2])] {
            let error = totals.sound("eval", "logits").expect_err("no loss");
            assert!(
                error.is_diverged() && error.to_string().contains("finite"),
                "{error}"
            );
        }
    }
}
