//! The settings of a sampler and their ranges.

use super::refused;
use crate::error::Result;

/// How tokens are picked. The default draws from the model's own distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SamplerOptions {
    /// Divides the logits; finite, at least 0. 0 is greedy: the largest logit, and no random number.
    pub temperature: f32,
    /// Largest logits that are kept; 0 keeps all.
    pub top_k: usize,
    /// Probability that the kept tokens reach, above 0 and at most 1; 1 keeps all.
    pub top_p: f32,
    /// Least probability in parts of the largest one, 0 to 1; 0 keeps all.
    pub min_p: f32,
    /// Lowers the logits of accepted tokens above 1, raises them below; 0.01 to 100; 1 leaves them.
    pub repetition_penalty: f32,
    /// Accepted tokens, the last ones, that the penalty sees; 0 for none.
    pub repetition_window: usize,
    /// Starts the random numbers.
    pub seed: u64,
}

impl Default for SamplerOptions {
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            repetition_window: 64,
            seed: 0,
        }
    }
}

impl SamplerOptions {
    /// Always the largest logit.
    pub fn greedy() -> Self {
        Self {
            temperature: 0.0,
            ..Self::default()
        }
    }

    /// Refuses values outside their ranges, NaN among them.
    ///
    /// # Errors
    /// Names the first option that is.
    pub fn check(&self) -> Result<()> {
        let finite = |x: f32| x.is_finite() && x >= 0.0;
        let ranges = [
            (
                "temperature",
                self.temperature,
                "a finite number of at least 0",
                finite(self.temperature),
            ),
            (
                "top_p",
                self.top_p,
                "above 0 and at most 1",
                self.top_p > 0.0 && self.top_p <= 1.0,
            ),
            (
                "min_p",
                self.min_p,
                "0 to 1",
                (0.0..=1.0).contains(&self.min_p),
            ),
            (
                "repetition_penalty",
                self.repetition_penalty,
                "0.01 to 100",
                (0.01..=100.0).contains(&self.repetition_penalty),
            ),
        ];
        match ranges.into_iter().find(|&(.., fits)| !fits) {
            Some((option, value, expected, _)) => Err(refused(option, expected, value)),
            None => Ok(()),
        }
    }

    /// How many of the largest logits are kept; none where all are.
    pub(super) fn keeps(&self) -> Option<usize> {
        match self.top_k {
            _ if self.temperature == 0.0 => Some(1),
            0 => None,
            k => Some(k),
        }
    }

    /// True when accepted tokens change the logits.
    pub(super) fn penalises(&self) -> bool {
        self.repetition_penalty != 1.0 && self.repetition_window > 0
    }
}
