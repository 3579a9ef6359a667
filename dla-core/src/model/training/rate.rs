//! The learning rate of a step.

use std::f64::consts::PI;

use crate::error::{Error, Result};

/// A warm-up, then half a cosine: a pure function of the step.
///
/// With s the steps done before, counted from 0:
///
/// ```text
/// s < warmup            rate = peak · (s + 1) / warmup
/// warmup ≤ s < steps    rate = least + (peak − least) · (1 + cos(π (s − warmup) / (steps − warmup))) / 2
/// steps ≤ s             rate = least
/// ```
///
/// ```
/// use dla_core::model::training::LearningRate;
/// let rate = LearningRate { peak: 1.0, least: 0.1, warmup: 4, steps: 14 };
/// assert_eq!([0, 3, 4, 14, 99].map(|step| rate.at(step)), [0.25, 1.0, 1.0, 0.1, 0.1]);
/// assert!((rate.at(9) - 0.55).abs() < 1e-12);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LearningRate {
    /// The largest rate.
    pub peak: f64,
    /// The rate at the end.
    pub least: f64,
    /// Steps of the warm-up.
    pub warmup: u64,
    /// Steps in all, the warm-up among them.
    pub steps: u64,
}

impl LearningRate {
    /// The rate of the step that `step` steps came before.
    pub fn at(&self, step: u64) -> f64 {
        if step < self.warmup {
            return self.peak * (step + 1) as f64 / self.warmup as f64;
        }
        if step >= self.steps {
            return self.least;
        }
        let done = (step - self.warmup) as f64 / (self.steps - self.warmup) as f64;
        self.least + (self.peak - self.least) * 0.5 * (1.0 + (PI * done).cos())
    }

    /// Refuses rates that are not finite or below 0, and a warm-up longer than all.
    ///
    /// # Errors
    /// An input error that names the setting.
    pub fn check(&self) -> Result<()> {
        for (name, rate) in [("peak", self.peak), ("least", self.least)] {
            if !rate.is_finite() || rate < 0.0 {
                let expected = "finite and at least 0";
                return Err(Error::input("learning rate", name, expected, rate));
            }
        }
        if self.least > self.peak {
            let expected = format!("at most the largest, {}", self.peak);
            return Err(Error::input("learning rate", "least", expected, self.least));
        }
        if self.warmup > self.steps {
            let expected = format!("at most the {} steps", self.steps);
            return Err(Error::input(
                "learning rate",
                "warmup",
                expected,
                self.warmup,
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::LearningRate;

    const RATE: LearningRate = LearningRate {
        peak: 3e-3,
        least: 1e-4,
        warmup: 10,
        steps: 100,
    };

    #[test]
    fn it_rises_to_the_peak_and_falls_to_the_least() {
        assert!((1..10).all(|step| RATE.at(step) > RATE.at(step - 1)));
        assert!((11..100).all(|step| RATE.at(step) < RATE.at(step - 1)));
        assert!((0..200).all(|step| (1e-4..=3e-3).contains(&RATE.at(step))));
        let none = LearningRate { warmup: 0, ..RATE };
        assert_eq!(none.at(0), 3e-3);
    }

    #[test]
    fn settings_without_meaning_are_refused() {
        assert!(RATE.check().is_ok());
        let wrong = [
            (
                "peak",
                LearningRate {
                    peak: f64::NAN,
                    ..RATE
                },
            ),
            (
                "least",
                LearningRate {
                    least: -1.0,
                    ..RATE
                },
            ),
            (
                "warmup",
                LearningRate {
                    warmup: 101,
                    ..RATE
                },
            ),
        ];
        for (name, rate) in wrong {
            let error = rate.check().expect_err("no meaning");
            assert!(error.is_input() && error.argument() == name, "{error}");
        }
    }
}
