//! Several tasks in turn.

use dla_core::{Error, Result};

use super::{Split, Task};
use crate::batch::{Batch, Example};
use crate::random::{Random, mix};

/// Several tasks, each batch of one of them, drawn in proportion to its weight.
pub struct Mixture {
    weights: Vec<f64>,
    tasks: Vec<Box<dyn Task>>,
}

impl Mixture {
    /// The tasks with their weights.
    ///
    /// # Errors
    /// For no tasks, and weights that are not above 0 and finite.
    pub fn new(parts: Vec<(f64, Box<dyn Task>)>) -> Result<Self> {
        if parts.is_empty() {
            return Err(Error::input("train", "data.parts", "at least one", "none"));
        }
        let wrong = parts
            .iter()
            .find(|part| !(part.0 > 0.0 && part.0.is_finite()));
        if let Some((weight, _)) = wrong {
            let argument = "data.parts.weight";
            return Err(Error::input("train", argument, "a number above 0", weight));
        }
        let (weights, tasks) = parts.into_iter().unzip();
        Ok(Self { weights, tasks })
    }

    fn draw(&self, random: &mut Random) -> &dyn Task {
        &*self.tasks[random.weighted(&self.weights)]
    }
}

impl Task for Mixture {
    fn example(&self, split: Split, random: &mut Random) -> Result<Example> {
        self.draw(random).example(split, random)
    }

    fn vocabulary(&self) -> usize {
        let sizes = self.tasks.iter().map(|task| task.vocabulary());
        sizes.max().unwrap_or(1)
    }

    fn fingerprint(&self) -> u64 {
        let parts = self.tasks.iter().map(|task| task.fingerprint());
        parts.fold(0, |all, part| mix(all ^ part))
    }

    fn batch(&self, split: Split, seed: u64, number: u64, sequences: usize) -> Result<Batch> {
        // A stream that no example has.
        let mut random = Random::of(split.seed(seed), number, u64::MAX);
        self.draw(&mut random).batch(split, seed, number, sequences)
    }
}
