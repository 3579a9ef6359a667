//! What each filter leaves, and the draw.

use std::cmp::Ordering;

use super::refused;
use crate::error::{Error, Result};

/// The `k` largest logits of a row with their ids, the largest first, of equal ones the smaller id
/// first; all of a row that is shorter.
///
/// # Errors
/// For a logit that is NaN or +∞.
///
/// ```
/// let top = dla_core::sample::largest(&[1.0, 3.0, 3.0, 2.0], 2)?;
/// assert_eq!(top, [(1, 3.0), (2, 3.0)]);
/// # Ok::<(), dla_core::Error>(())
/// ```
pub fn largest(row: &[f32], k: usize) -> Result<Vec<(u32, f32)>> {
    let mut logits = numbered(row);
    check_numbers(&logits)?;
    keep_largest(&mut logits, k);
    logits.sort_unstable_by(descending);
    Ok(logits)
}

/// The logits with their ids.
pub(super) fn numbered(row: &[f32]) -> Vec<(u32, f32)> {
    (0..).zip(row.iter().copied()).collect()
}

/// The larger logit first, of equal ones (0 and −0 are) the smaller id.
fn descending(a: &(u32, f32), b: &(u32, f32)) -> Ordering {
    let by_logit = b.1.partial_cmp(&a.1).unwrap_or(Ordering::Equal);
    by_logit.then(a.0.cmp(&b.0))
}

/// Leaves the `k` largest, in any order.
fn keep_largest(logits: &mut Vec<(u32, f32)>, k: usize) {
    if k < logits.len() {
        if k > 0 {
            logits.select_nth_unstable_by(k - 1, descending);
        }
        logits.truncate(k);
    }
}

fn check_numbers(logits: &[(u32, f32)]) -> Result<()> {
    let wrong = |&&(_, logit): &&(u32, f32)| logit.is_nan() || logit == f32::INFINITY;
    match logits.iter().find(wrong) {
        Some((id, logit)) => {
            let got = format!("{logit} for token {id}");
            let expected = "finite numbers or −∞";
            Err(Error::diverged("sample", "logits", expected, got))
        }
        None => Ok(()),
    }
}

/// The tokens that may still be picked.
#[derive(Clone, Debug)]
pub(super) struct Survivors {
    /// Id and logit; the largest first if `ordered`, else by id.
    logits: Vec<(u32, f32)>,
    /// e^((logit − largest) / temperature), once weighed.
    weights: Vec<f64>,
}

impl Survivors {
    /// The `keep` largest of all logits, in order; where all are kept, in order only if `ordered`.
    pub(super) fn of_row(
        mut logits: Vec<(u32, f32)>,
        keep: Option<usize>,
        ordered: bool,
    ) -> Result<Self> {
        check_numbers(&logits)?;
        if let Some(k) = keep {
            keep_largest(&mut logits, k);
        }
        if ordered || keep.is_some() {
            logits.sort_unstable_by(descending);
        }
        Self::new(logits)
    }

    /// The first `k` of the largest logits of a vocabulary.
    pub(super) fn of_top(vocabulary: usize, largest: &[(u32, f32)], k: usize) -> Result<Self> {
        check_numbers(largest)?;
        let needed = k.min(vocabulary);
        if largest.len() < needed {
            let expected = format!("the {needed} largest logits");
            return Err(refused("candidates", expected, largest.len()));
        }
        if !largest.is_sorted_by(|a, b| descending(a, b).is_lt()) {
            let expected = "the largest logit first, of equal ones the smaller id";
            return Err(refused("candidates", expected, "another order"));
        }
        if let Some((id, _)) = largest.iter().find(|(id, _)| *id as usize >= vocabulary) {
            let expected = format!("ids below the vocabulary, {vocabulary}");
            return Err(refused("candidates", expected, id));
        }
        Self::new(largest[..needed].to_vec())
    }

    fn new(logits: Vec<(u32, f32)>) -> Result<Self> {
        if logits.iter().all(|&(_, logit)| logit == f32::NEG_INFINITY) {
            return Err(refused("logits", "one above −∞", "none"));
        }
        Ok(Self {
            logits,
            weights: Vec::new(),
        })
    }

    /// The first token: the largest, where they are in order.
    pub(super) fn first(&self) -> u32 {
        self.logits[0].0
    }

    /// Weighs each by its probability at `temperature`; the largest weight is 1.
    pub(super) fn weigh(&mut self, temperature: f32) {
        let all = self.logits.iter().map(|&(_, logit)| logit);
        let largest = f64::from(all.fold(f32::NEG_INFINITY, f32::max));
        let weight = |&(_, logit): &(u32, f32)| {
            libm::exp((f64::from(logit) - largest) / f64::from(temperature))
        };
        self.weights = self.logits.iter().map(weight).collect();
    }

    /// Keeps the fewest, largest first, that reach `p` of all probability; 1 keeps all.
    pub(super) fn keep_top_p(&mut self, p: f32) {
        if p >= 1.0 {
            return;
        }
        let enough = f64::from(p) * self.weights.iter().sum::<f64>();
        let mut sum = 0.0;
        let reached = self.weights.iter().position(|weight| {
            sum += weight;
            sum >= enough
        });
        if let Some(last) = reached {
            self.logits.truncate(last + 1);
            self.weights.truncate(last + 1);
        }
    }

    /// Takes the weight of those less probable than `p` times the largest.
    pub(super) fn keep_min_p(&mut self, p: f32) {
        for weight in &mut self.weights {
            if *weight < f64::from(p) {
                *weight = 0.0;
            }
        }
    }

    /// The token that `random`, from 0 up to but without 1, falls on.
    pub(super) fn draw(&self, random: f64) -> u32 {
        let mut left = random * self.weights.iter().sum::<f64>();
        let mut picked = self.first();
        for (&(id, _), &weight) in self.logits.iter().zip(&self.weights) {
            if weight == 0.0 {
                continue;
            }
            picked = id;
            if left < weight {
                break;
            }
            left -= weight;
        }
        picked
    }
}
