//! Multi-query associative recall (arXiv 2312.04927).

use dla_core::nn::loss::IGNORED;
use dla_core::{Error, Result};

use super::{Split, Task};
use crate::batch::Example;
use crate::random::Random;

/// The exponent of the gaps, a: most questions come early, some late.
const POWER: f64 = 0.01;

/// Pairs of a key and a value, then each key once more, whose value is to be recalled.
///
/// Keys are 1 to V/2 − 1, values V/2 to V − 1, drawn without replacement. The sequence begins
/// k v k v …; key j stands again at 2P + 2·gap, where the target is its value. Gaps are drawn without
/// replacement with p ∝ a·i^(a − 1), i = gap + 1. All other tokens of the second part are random and
/// have no target.
///
/// ```
/// use dla_train::Random;
/// use dla_train::task::{Mqar, Split, Task};
/// let task = Mqar::new(64, 4, 8192)?;
/// let example = task.example(Split::Train, &mut Random::of(1, 0, 0))?;
/// assert_eq!(example.ids.len(), 64);
/// assert_eq!(example.targets.iter().filter(|&&id| id != u32::MAX).count(), 4);
/// # Ok::<(), dla_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mqar {
    tokens: usize,
    pairs: usize,
    vocabulary: u32,
}

impl Mqar {
    /// Sequences of `tokens` tokens with `pairs` pairs, ids below `vocabulary`.
    ///
    /// # Errors
    /// For an odd length, no pairs, more than a quarter of the tokens, and a vocabulary that is not
    /// larger than the length.
    pub fn new(tokens: usize, pairs: usize, vocabulary: usize) -> Result<Self> {
        let refuse =
            |argument, expected: String, got| Err(Error::input("mqar", argument, expected, got));
        if !tokens.is_multiple_of(2) {
            return refuse("length", "an even number".into(), tokens);
        }
        if pairs == 0 || pairs > tokens / 4 {
            let expected = format!("1 to {}, a quarter of the length", tokens / 4);
            return refuse("pairs", expected, pairs);
        }
        let largest = 1 << 20;
        if vocabulary <= tokens || vocabulary > largest {
            let expected = format!("{} to {largest}", tokens + 1);
            return refuse("vocabulary", expected, vocabulary);
        }
        Ok(Self {
            tokens,
            pairs,
            vocabulary: vocabulary as u32,
        })
    }

    /// Pairs of a sequence.
    pub fn pairs(&self) -> usize {
        self.pairs
    }

    /// Gaps of the questions, one for each pair.
    fn gaps(&self, random: &mut Random) -> Vec<usize> {
        let space = (self.tokens - 2 * self.pairs) / 2;
        // Drawing without replacement in proportion to p is taking those with the least E / p, E
        // exponential.
        let mut arrivals: Vec<(f64, usize)> = (0..space)
            .map(|gap| {
                let p = POWER * libm::pow((gap + 1) as f64, POWER - 1.0);
                (-libm::log(1.0 - random.float()) / p, gap)
            })
            .collect();
        arrivals.sort_by(|a, b| a.0.total_cmp(&b.0));
        arrivals[..self.pairs].iter().map(|&(_, gap)| gap).collect()
    }
}

impl Task for Mqar {
    fn example(&self, _split: Split, random: &mut Random) -> Result<Example> {
        let half = self.vocabulary / 2;
        let keys = random.distinct(1..half, self.pairs);
        let values = random.distinct(half..self.vocabulary, self.pairs);
        let gaps = self.gaps(random);
        let noise = |_| random.below(self.vocabulary.into()) as u32;
        let mut ids: Vec<u32> = (0..self.tokens).map(noise).collect();
        let mut targets = vec![IGNORED; self.tokens];
        for pair in 0..self.pairs {
            ids[2 * pair] = keys[pair];
            ids[2 * pair + 1] = values[pair];
            let at = 2 * self.pairs + 2 * gaps[pair];
            ids[at] = keys[pair];
            targets[at] = values[pair];
        }
        Ok(Example { ids, targets })
    }

    fn vocabulary(&self) -> usize {
        self.vocabulary as usize
    }
}

#[cfg(test)]
mod tests {
    use super::Mqar;
    use crate::random::Random;
    use crate::task::{Split, Task};
    use dla_core::nn::loss::IGNORED;
    use std::collections::{HashMap, HashSet};

    /// Read back from the tokens alone, as the task is defined.
    fn check(task: &Mqar, ids: &[u32], targets: &[u32]) {
        let (pairs, half) = (task.pairs, task.vocabulary / 2);
        let dictionary: HashMap<u32, u32> =
            (0..pairs).map(|j| (ids[2 * j], ids[2 * j + 1])).collect();
        assert_eq!(dictionary.len(), pairs, "keys are distinct");
        let values: HashSet<_> = dictionary.values().collect();
        assert_eq!(values.len(), pairs, "values are distinct");
        assert!(dictionary.keys().all(|k| (1..half).contains(k)));
        assert!(values.iter().all(|v| (half..task.vocabulary).contains(v)));
        let mut asked = HashSet::new();
        for (at, &target) in targets.iter().enumerate().filter(|t| *t.1 != IGNORED) {
            assert!(at >= 2 * pairs && at.is_multiple_of(2));
            assert_eq!(dictionary.get(&ids[at]), Some(&target));
            assert!(asked.insert(ids[at]), "each key is asked once");
        }
        assert_eq!(asked.len(), pairs);
    }

    #[test]
    fn sequences_are_as_defined() {
        for (tokens, pairs, vocabulary) in
            [(64, 4, 8192), (64, 16, 8192), (8, 1, 9), (256, 64, 300)]
        {
            let task = Mqar::new(tokens, pairs, vocabulary).expect("sizes that fit");
            for i in 0..20 {
                let example = task.example(Split::Train, &mut Random::of(5, 1, i));
                let example = example.expect("an example");
                assert_eq!(example.ids.len(), tokens);
                check(&task, &example.ids, &example.targets);
            }
        }
    }

    #[test]
    fn the_first_gap_follows_the_power_law() {
        let task = Mqar::new(32, 1, 8192).expect("sizes that fit");
        let p: Vec<f64> = (1..=15).map(|i| f64::from(i).powf(-0.99)).collect();
        let sum: f64 = p.iter().sum();
        let mut counts = [0.0; 15];
        let draws = 4000;
        for i in 0..draws {
            let gap = task.gaps(&mut Random::of(1, 0, i))[0];
            counts[gap] += 1.0 / f64::from(draws as u32);
        }
        for (gap, count) in counts.iter().enumerate() {
            let expected = p[gap] / sum;
            assert!(
                (count - expected).abs() < 0.03,
                "gap {gap}: {count}, {expected}"
            );
        }
    }

    #[test]
    fn sizes_that_do_not_fit_are_refused() {
        for (tokens, pairs, vocabulary, argument) in [
            (63, 4, 8192, "length"),
            (64, 17, 8192, "pairs"),
            (64, 0, 8192, "pairs"),
            (64, 4, 64, "vocabulary"),
        ] {
            let error = Mqar::new(tokens, pairs, vocabulary).expect_err(argument);
            assert!(error.is_input() && error.argument() == argument, "{error}");
        }
    }
}
