//! Random numbers that only depend on where they are used.

use oorandom::Rand64;

/// A stream of random numbers, the same on every platform.
///
/// The stream of an example is a pure function of the seed, the batch and the example's place in it, so
/// a run that goes on needs to remember nothing but its step.
///
/// ```
/// use dla_train::Random;
/// let numbers = |example| [(); 3].map(|()| Random::of(7, 2, example).below(1000));
/// assert_eq!(numbers(0), numbers(0));
/// assert_ne!(numbers(0), numbers(1));
/// ```
#[derive(Clone, Debug)]
pub struct Random(Rand64);

impl Random {
    /// The stream of example `example` of batch `batch` under `seed`.
    pub fn of(seed: u64, batch: u64, example: u64) -> Self {
        let first = mix(seed.wrapping_add(mix(batch.wrapping_add(mix(example)))));
        let second = mix(first ^ seed.rotate_left(32));
        Self(Rand64::new(u128::from(first) << 64 | u128::from(second)))
    }

    /// A whole number below `bound`, which must be at least 1; each is equally likely.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.rand_range(0..bound)
    }

    /// A place in a list of `len`, at least 1.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// A number in 0 to below 1.
    pub fn float(&mut self) -> f64 {
        self.0.rand_float()
    }

    /// One of `items`, of which there must be some.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.index(items.len())]
    }

    /// `count` different numbers of `range`, in random order; all of them if there are no more.
    pub fn distinct(&mut self, range: std::ops::Range<u32>, count: usize) -> Vec<u32> {
        let mut items: Vec<u32> = range.collect();
        let count = count.min(items.len());
        for at in 0..count {
            let other = at + self.index(items.len() - at);
            items.swap(at, other);
        }
        items.truncate(count);
        items
    }

    /// The place of a weight drawn in proportion to it; `weights` sum to more than 0.
    pub fn weighted(&mut self, weights: &[f64]) -> usize {
        let mut left = self.float() * weights.iter().sum::<f64>();
        let heavy = |&&(_, &weight): &&(usize, &f64)| weight > 0.0;
        let places: Vec<_> = weights.iter().enumerate().collect();
        for &(place, weight) in places.iter().filter(heavy) {
            if left < *weight {
                return place;
            }
            left -= weight;
        }
        // Rounding has passed the end.
        places.iter().rfind(heavy).map_or(0, |&(place, _)| place)
    }
}

/// The mixing step of SplitMix64: every bit of `x` moves every bit of the result.
pub(crate) fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn streams_differ_by_every_coordinate() {
        let first = |seed, batch, example| Random::of(seed, batch, example).below(u64::MAX);
        let all = [
            first(1, 2, 3),
            first(1, 3, 2),
            first(2, 1, 3),
            first(3, 2, 1),
        ];
        for (i, a) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|b| a != b));
        }
    }

    #[test]
    fn distinct_numbers_are_distinct_and_in_range() {
        let mut random = Random::of(0, 0, 0);
        let mut numbers = random.distinct(5..25, 20);
        numbers.sort_unstable();
        assert_eq!(numbers, (5..25).collect::<Vec<_>>());
        assert_eq!(random.distinct(0..3, 9).len(), 3);
    }

    #[test]
    fn weights_are_followed() {
        let mut random = Random::of(0, 0, 0);
        let mut counts = [0; 3];
        (0..4000).for_each(|_| counts[random.weighted(&[1.0, 0.0, 3.0])] += 1);
        assert_eq!(counts[1], 0);
        assert!((900..1100).contains(&counts[0]), "{counts:?}");
    }
}
