//! The deviation bound (`docs/algorithm.md` §10) and the schedule that minimises it.
//!
//! For contributions u_t, before any decay, and blocks C_i with means ū_i,
//! `B = Σ_i √|C_i| · √(Σ_{t∈C_i} ‖u_t − ū_i‖²)` bounds how far the output for a query q moves when
//! every block's contributions are replaced by their mean: `|y − ỹ| ≤ ‖q‖ B`.

use super::sequence::Sequence;
use crate::backbone::Token;
use crate::decisions::{Decision, Decisions};
use crate::dims::Dims;
use crate::error::{Error, Result};
use crate::inputs::Inputs;
use crate::parallel::map_sequences;
use crate::real::Real;
use crate::vector::dot;

/// The most tokens whose block costs are tabulated: 67 MB for each head that is worked on at once.
pub const MAX_TOKENS: usize = 4096;

/// What every block of consecutive tokens would add to the bound, for one head of one sequence.
///
/// ```
/// use dla_core::dla::bound::Costs;
/// use dla_core::backbone::Token;
/// let token = |v: &'static [f64]| Token { q: &[1.0], k: &[1.0], v, g: 0.0, beta: 1.0 };
/// let costs = Costs::new(&[token(&[1.0]), token(&[1.0]), token(&[5.0])])?;
/// assert_eq!(costs.bound(&[0, 2]), 0.0); // two constant blocks
/// assert_eq!(costs.best(2), [0, 2]);
/// assert_eq!(costs.best(3), [0, 2]); // a third block would gain nothing
/// # Ok::<(), dla_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Costs {
    len: usize,
    /// Of the block `first..=last`, at `last (last + 1) / 2 + first`.
    cost: Vec<f64>,
}

impl Costs {
    /// Tabulates all blocks of `tokens`, in double precision.
    ///
    /// # Errors
    /// Refuses more than [`MAX_TOKENS`] tokens.
    pub fn new<R: Real>(tokens: &[Token<'_, R>]) -> Result<Self> {
        let len = tokens.len();
        if len > MAX_TOKENS {
            let expected = format!("at most {MAX_TOKENS} for the deviation bound");
            return Err(Error::unsupported("op", "tokens", expected, len));
        }
        let mut cost = Vec::with_capacity(len * (len + 1) / 2);
        let mut later = vec![0.0; len]; // ⟨u_a, Σ_{a<j≤last} u_j⟩
        let squares: Vec<f64> = tokens.iter().map(|u| product(u, u)).collect();
        for last in 0..len {
            for first in 0..last {
                later[first] += product(&tokens[first], &tokens[last]);
            }
            let row = cost.len();
            cost.resize(row + last + 1, 0.0);
            let (mut sum_of_squares, mut square_of_sum) = (squares[last], squares[last]);
            for first in (0..last).rev() {
                sum_of_squares += squares[first];
                square_of_sum += 2.0 * later[first] + squares[first];
                let n = (last - first + 1) as f64;
                cost[row + first] = root(n * sum_of_squares - square_of_sum);
            }
        }
        Ok(Self { len, cost })
    }

    /// √|C| · √(Σ‖u − ū‖²) of the block `first..=last`.
    pub fn block(&self, first: usize, last: usize) -> f64 {
        self.cost[last * (last + 1) / 2 + first]
    }

    /// The bound of the partition whose blocks begin at `starts`, ascending from 0; 0 for no tokens.
    pub fn bound(&self, starts: &[usize]) -> f64 {
        if self.len == 0 {
            return 0.0;
        }
        let ends = starts.iter().skip(1).copied().chain([self.len]);
        let block = |(&first, end): (&usize, usize)| self.block(first, end - 1);
        starts.iter().zip(ends).map(block).sum()
    }

    /// Where the blocks of the partition with the least bound begin, at most `blocks` of them.
    ///
    /// The fewest blocks win a tie, then the earliest starts.
    pub fn best(&self, blocks: usize) -> Vec<usize> {
        let mut least: Vec<f64> = (0..self.len).map(|last| self.block(0, last)).collect();
        let mut starts = vec![vec![0; self.len]]; // of the last block, by blocks and last token
        let mut best = (least.last().copied().unwrap_or(0.0), 1);
        for count in 2..=blocks.min(self.len) {
            let (bound, start) = self.one_block_more(&least, count);
            least = bound;
            starts.push(start);
            if least[self.len - 1] < best.0 {
                best = (least[self.len - 1], count);
            }
        }
        backtrack(&starts[..best.1], self.len)
    }

    /// From the least bounds of `count − 1` blocks up to each token, those of `count` blocks and the
    /// start of the last one.
    fn one_block_more(&self, fewer: &[f64], count: usize) -> (Vec<f64>, Vec<usize>) {
        let mut bound = vec![f64::INFINITY; self.len];
        let mut start = vec![count - 1; self.len];
        for last in count - 1..self.len {
            for first in count - 1..=last {
                let sum = fewer[first - 1] + self.block(first, last);
                if sum < bound[last] {
                    (bound[last], start[last]) = (sum, first);
                }
            }
        }
        (bound, start)
    }
}

/// The starts of all blocks, from each last block's.
fn backtrack(starts: &[Vec<usize>], len: usize) -> Vec<usize> {
    let mut end = len;
    let mut path = Vec::with_capacity(starts.len());
    for row in starts.iter().rev() {
        if end > 0 {
            end = row[end - 1];
            path.push(end);
        }
    }
    path.reverse();
    path
}

/// The decisions of the offline schedule: for each head the partition into at most `capacity`
/// states that minimises the bound over the whole sequence.
///
/// # Errors
/// Refuses more than [`MAX_TOKENS`] tokens.
pub fn offline<R: Real>(dims: &Dims, inputs: &Inputs<'_, R>) -> Result<Decisions> {
    let mut decisions = Decisions::new(dims.token_heads());
    let starts = map_sequences(dims, |b, h| {
        let sequence = Sequence::new(dims, inputs, b, h);
        Costs::of(&sequence).map(|costs| costs.best(dims.capacity))
    });
    for (i, starts) in starts.into_iter().enumerate() {
        for t in starts? {
            let at = dims.token_head(i / dims.heads, t, i % dims.heads);
            let merge_at = None;
            decisions.set(
                at,
                Decision {
                    opens: true,
                    merge_at,
                },
            );
        }
    }
    Ok(decisions)
}

impl Costs {
    /// Tabulates all blocks of a sequence's head; see [`Costs::new`].
    pub fn of<R: Real>(sequence: &Sequence<'_, R>) -> Result<Self> {
        let tokens: Vec<_> = (0..sequence.len()).map(|t| sequence.token(t)).collect();
        Self::new(&tokens)
    }
}

/// ⟨u_a, u_b⟩ = β_a β_b (k_a·k_b)(v_a·v_b).
fn product<R: Real>(a: &Token<'_, R>, b: &Token<'_, R>) -> f64 {
    let strength = a.beta.to_f64() * b.beta.to_f64();
    strength * dot(a.k, b.k).to_f64() * dot(a.v, b.v).to_f64()
}

/// The square root; rounding below 0 counts as 0, NaN stays.
fn root(x: f64) -> f64 {
    if x < 0.0 { 0.0 } else { x.sqrt() }
}
