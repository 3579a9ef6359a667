//! Decisions that are to be followed: whether a run could have made them.

use super::positions::{Occupancy, positional};
use crate::check::check_len;
use crate::config::{Config, Schedule};
use crate::decisions::{Decision, Decisions};
use crate::dims::Dims;
use crate::error::{Error, Result};

impl Decisions {
    /// Refuses decisions that no run from a cache with token counts `n` could have made.
    ///
    /// The first token of an empty cache opens a state; a merge happens at a boundary that finds the
    /// cache full, and nowhere else, and names an adjacent pair; under Fenwick they must be the
    /// levels' own. Entries beyond a shorter item's length are not read.
    pub fn check(
        &self,
        dims: &Dims,
        config: &Config,
        lengths: Option<&[u32]>,
        n: Option<&[u32]>,
    ) -> Result<()> {
        check_len("boundary", self.boundary.len(), dims.token_heads())?;
        check_len("merge_at", self.merge_at.len(), dims.token_heads())?;
        for i in 0..dims.sequences() {
            let (b, h) = (i / dims.heads, i % dims.heads);
            let mut occupancy = Occupancy::of(dims, n, i);
            for t in 0..lengths.map_or(dims.tokens, |lengths| lengths[b] as usize) {
                let at = dims.token_head(b, t, h);
                if config.schedule == Schedule::Fenwick {
                    let own = positional(config.schedule, dims.capacity, occupancy);
                    self.check_level(at, own)?;
                } else {
                    self.check_step(at, occupancy.count, dims.capacity)?;
                }
                occupancy.advance(config.schedule, self.get(at));
            }
        }
        Ok(())
    }

    /// One step that finds `count` states.
    fn check_step(&self, at: usize, count: usize, capacity: usize) -> Result<()> {
        let (boundary, merge_at) = (self.boundary[at], self.merge_at[at]);
        let lowest = u8::from(count == 0);
        if boundary < lowest || boundary > 1 {
            let expected = if count == 0 {
                "1, for no state exists"
            } else {
                "0 or 1"
            };
            return Err(refused("boundary", expected, boundary, at));
        }
        if boundary == 1 && count == capacity {
            let pairs = (capacity - 1).max(1) as i32;
            if !(0..pairs).contains(&merge_at) {
                return Err(refused(
                    "merge_at",
                    format!("0 to {}", pairs - 1),
                    merge_at,
                    at,
                ));
            }
        } else if merge_at != -1 {
            return Err(refused("merge_at", "−1, for nothing merges", merge_at, at));
        }
        Ok(())
    }

    fn check_level(&self, at: usize, own: Decision) -> Result<()> {
        let merge_at = own.merge_at.map_or(-1, |index| index as i32);
        if self.boundary[at] != 1 {
            return Err(refused(
                "boundary",
                "1 under fenwick",
                self.boundary[at],
                at,
            ));
        }
        if self.merge_at[at] != merge_at {
            return Err(refused(
                "merge_at",
                format!("{merge_at} under fenwick"),
                self.merge_at[at],
                at,
            ));
        }
        Ok(())
    }
}

fn refused(
    argument: &'static str,
    expected: impl ToString,
    got: impl std::fmt::Display,
    at: usize,
) -> Error {
    Error::input("op", argument, expected, format!("{got} at index {at}"))
}
