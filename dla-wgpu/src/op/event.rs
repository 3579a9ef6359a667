//! One word of `trace`: what was decided at a token; the twin of `common/trace.wgsl`.
//!
//! Bit 0: boundary; bits 8 to 15: `merge_at` + 1; bits 16 to 23: live states after the step.

use dla_core::dla::schedule::Occupancy;
use dla_core::{Decision, Schedule};

/// The word of a decision that leaves `count` states.
fn word(decision: Decision, count: usize) -> u32 {
    let merged = decision.merge_at.map_or(0, |index| index as u32 + 1);
    u32::from(decision.opens) | merged << 8 | (count as u32) << 16
}

/// The word of a decision on the next token of a head, whose `occupancy` goes one token further.
pub(crate) fn follow(schedule: Schedule, decision: Decision, occupancy: &mut Occupancy) -> u32 {
    occupancy.advance(schedule, decision);
    word(decision, occupancy.count)
}

/// The decision of a word, and the states it left.
pub(crate) fn read(word: u32) -> (Decision, usize) {
    let decision = Decision {
        opens: word & 1 != 0,
        merge_at: (word >> 8 & 255).checked_sub(1).map(|index| index as usize),
    };
    (decision, (word >> 16 & 255) as usize)
}
