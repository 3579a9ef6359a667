//! What follows from positions alone: levels, and the decisions of schedules that look at nothing else
//! (`docs/algorithm.md` §7).

use crate::config::Schedule;
use crate::decisions::Decision;
use crate::dims::Dims;
use crate::error::{Error, Result};

/// The level of the state `index` (oldest first) of `count` Fenwick states that hold `position` tokens.
///
/// Level 0 holds the newest token alone; level 1 + j is live where bit j of `position − 1` is set
/// and holds 2^j tokens.
///
/// ```
/// use dla_core::dla::schedule::level;
/// // 7 tokens: position − 1 = 0b110, so four tokens at level 3, two at level 2, the newest at 0.
/// assert_eq!([0, 1, 2].map(|i| level(7, 3, i)), [3, 2, 0]);
/// ```
pub fn level(position: u64, count: usize, index: usize) -> usize {
    let younger = count - 1 - index;
    if younger == 0 {
        return 0;
    }
    let mut bits = position - 1;
    for _ in 1..younger {
        bits &= bits - 1;
    }
    1 + bits.trailing_zeros() as usize
}

/// The levels that Fenwick needs for `tokens` tokens, 1 + ⌈log2 T⌉.
///
/// ```
/// use dla_core::dla::schedule::levels;
/// assert_eq!([0, 1, 2, 3, 4, 5].map(levels), [1, 1, 2, 3, 3, 4]);
/// ```
pub fn levels(tokens: u64) -> usize {
    1 + tokens.max(1).next_power_of_two().trailing_zeros() as usize
}

/// Refuses sequences of more tokens than a state can count.
///
/// # Errors
/// An input error beyond 2^32 − 1 tokens.
pub fn check_tokens(tokens: u64) -> Result<()> {
    if tokens <= u64::from(u32::MAX) {
        return Ok(());
    }
    let expected = "at most 2^32 − 1 tokens in a sequence";
    Err(Error::input("op", "n0", expected, tokens))
}

/// Refuses sequences of `tokens` tokens under Fenwick where a cache of `capacity` states has too few levels.
///
/// # Errors
/// An input error that names the levels needed.
pub fn check_levels(schedule: Schedule, capacity: usize, tokens: u64) -> Result<()> {
    let levels = levels(tokens);
    if schedule == Schedule::Fenwick && capacity < levels {
        let expected = format!("at least {levels} levels for {tokens} tokens");
        return Err(Error::input("op", "capacity", expected, capacity));
    }
    Ok(())
}

/// The tokens that a head has taken in, and the live states that hold them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Occupancy {
    /// Tokens before this one.
    pub position: u64,
    /// Live states.
    pub count: usize,
}

impl Occupancy {
    /// Of head `i`, `i` = b·H + h, in a cache with token counts `n` `[batch, heads, capacity]`; empty without one.
    pub fn of(dims: &Dims, n: Option<&[u32]>, i: usize) -> Self {
        let n = n.map_or(&[][..], |n| &n[i * dims.capacity..][..dims.capacity]);
        Self {
            position: n.iter().map(|&n| u64::from(n)).sum(),
            count: n.iter().filter(|&&n| n > 0).count(),
        }
    }

    /// One token further, by `decision`.
    pub fn advance(&mut self, schedule: Schedule, decision: Decision) {
        self.position += 1;
        self.count = match (decision.merge_at, schedule) {
            (Some(at), Schedule::Fenwick) => at + 2,
            (Some(_), _) => self.count,
            (None, _) => self.count + usize::from(decision.opens),
        };
    }
}

/// What a schedule that looks at positions only decides for a token.
///
/// Under Fenwick every token opens a state, and `merge_at` is the oldest of the states that collapse
/// into one, all from there to the newest. Dynamic and offline schedules are not of this kind: they
/// are answered as `single`.
pub fn positional(schedule: Schedule, capacity: usize, before: Occupancy) -> Decision {
    let Occupancy { position, count } = before;
    match schedule {
        Schedule::Fenwick => fenwick(before),
        Schedule::Fixed { block } if position.is_multiple_of(block as u64) => Decision {
            opens: true,
            merge_at: (count == capacity).then_some(0),
        },
        _ => Decision {
            opens: count == 0,
            merge_at: None,
        },
    }
}

/// Carry of the binary counter: the levels below the lowest zero bit of `position − 1` collapse.
fn fenwick(before: Occupancy) -> Decision {
    let carry = before.position.trailing_zeros() as usize;
    Decision {
        opens: true,
        merge_at: (before.position > 0 && carry > 0).then(|| before.count - 1 - carry),
    }
}
