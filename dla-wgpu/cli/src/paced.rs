//! Long inputs in slices that each take a moment: often enough for a progress bar, seldom enough to cost nothing.

use std::time::{Duration, Instant};

use dla_core::model::Slices;

/// A slice that takes less than this makes the next one longer.
const SHORT: Duration = Duration::from_millis(100);
/// One that takes more makes it shorter.
const LONG: Duration = Duration::from_millis(400);
/// The most units of a slice: what it reads back lies in memory.
const MOST: usize = 16;

/// The slices of an input, their length following the time between them.
#[derive(Debug)]
pub struct Paced<'a> {
    slices: Slices<'a>,
    units: usize,
    since: Option<Instant>,
}

impl<'a> Paced<'a> {
    /// Begins with slices of one unit.
    pub fn new(slices: Slices<'a>) -> Self {
        Self {
            slices,
            units: 1,
            since: None,
        }
    }

    /// True when the last slice has been taken.
    pub fn is_empty(&self) -> bool {
        self.slices.is_empty()
    }
}

impl<'a> Iterator for Paced<'a> {
    type Item = &'a [u32];

    fn next(&mut self) -> Option<&'a [u32]> {
        if let Some(since) = self.since.replace(Instant::now()) {
            match since.elapsed() {
                short if short < SHORT => self.units = (2 * self.units).min(MOST),
                long if long > LONG => self.units = (self.units / 2).max(1),
                _ => {}
            }
        }
        self.slices.take(self.units)
    }
}

#[cfg(test)]
mod tests {
    use super::Paced;
    use dla_core::model::Slices;

    #[test]
    fn slices_are_whole_units_and_cover_everything() {
        let ids: Vec<u32> = (0..1000).collect();
        let mut paced = Paced::new(Slices::new(&ids, 7));
        let (mut all, mut lengths) = (Vec::new(), Vec::new());
        for slice in paced.by_ref() {
            all.extend_from_slice(slice);
            lengths.push(slice.len());
        }
        assert!(paced.is_empty());
        assert_eq!(all, ids);
        lengths.pop();
        assert!(lengths.iter().all(|length| length % 7 == 0), "{lengths:?}");
        assert!(lengths.len() < 1000 / 7 / 2, "they grew: {lengths:?}");
    }
}
