//! Picks the next token from logits: one sampler for CPU, GPU and browser.
//!
//! The steps and their order are those of Hugging Face's `generate`:
//!
//! 1. **repetition penalty** on the logits of the last accepted tokens;
//! 2. **temperature** divides the logits;
//! 3. **top-k** keeps the k largest;
//! 4. **top-p** keeps the fewest of those, largest first, whose probabilities reach p;
//! 5. **min-p** keeps those at least p times as probable as the largest;
//! 6. one of what is left is drawn in proportion to its probability.
//!
//! Temperature keeps the order of logits, so top-k needs the k largest and nothing else: a device may
//! send those alone ([`Sampler::needs`]) and the pick stays the same. Top-p and min-p look at the
//! probabilities that are drawn from. Of equal logits the smaller id counts as the larger.
//!
//! The same options, logits and accepted tokens give the same picks on every platform: the generator
//! is PCG-64, the exponential is not the platform's, and sums run in a fixed order at f64.

mod filter;
mod options;
mod saved;

use std::collections::VecDeque;

use oorandom::Rand64;

pub use filter::largest;
pub use options::SamplerOptions;

use self::filter::Survivors;
use crate::error::{Error, Result};

/// The most logits that [`Needs::Top`] asks for.
pub const MOST_TOP: usize = 64;

/// What a sampler must see of the logits to be exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// The so many largest.
    Top(usize),
    /// All of them.
    All,
}

/// The logits that a sampler sees. −∞ masks a token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Candidates<'a> {
    /// All, by id, `[vocabulary]`.
    Row(&'a [f32]),
    /// The largest, as [`largest`] gives them.
    Top {
        /// Logits that there were.
        vocabulary: usize,
        /// Id and logit, the largest first, of equal ones the smaller id first.
        largest: &'a [(u32, f32)],
    },
}

/// Picks tokens; carries the random numbers and the window of the repetition penalty along.
///
/// ```
/// use dla_core::sample::{Candidates, Sampler, SamplerOptions};
/// let mut greedy = Sampler::new(SamplerOptions::greedy())?;
/// let logits = [0.5, 2.0, -1.0];
/// assert_eq!(greedy.sample(&Candidates::Row(&logits))?, 1);
/// # Ok::<(), dla_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Sampler {
    options: SamplerOptions,
    random: Rand64,
    /// The last accepted tokens, the oldest first.
    window: VecDeque<u32>,
}

impl Sampler {
    /// A sampler before its first token.
    ///
    /// # Errors
    /// Those of [`SamplerOptions::check`].
    pub fn new(options: SamplerOptions) -> Result<Self> {
        options.check()?;
        Ok(Self {
            options,
            random: Rand64::new(options.seed.into()),
            window: VecDeque::new(),
        })
    }

    /// The settings.
    pub fn options(&self) -> &SamplerOptions {
        &self.options
    }

    /// What [`Sampler::sample`] must see.
    pub fn needs(&self) -> Needs {
        match self.options.keeps() {
            Some(k) if k <= MOST_TOP && !self.options.penalises() => Needs::Top(k),
            _ => Needs::All,
        }
    }

    /// Picks a token. It is not accepted yet: [`Sampler::accept`] does that.
    ///
    /// # Errors
    /// [`Error::is_diverged`](crate::Error::is_diverged) for logits that are NaN or +∞; an input error for none above −∞,
    /// fewer than [`Sampler::needs`] asks for or out of order, and an accepted token beyond the vocabulary. The sampler is
    /// as before then.
    pub fn sample(&mut self, candidates: &Candidates<'_>) -> Result<u32> {
        let mut left = self.survivors(candidates)?;
        if self.options.temperature == 0.0 {
            return Ok(left.first());
        }
        left.weigh(self.options.temperature);
        left.keep_top_p(self.options.top_p);
        left.keep_min_p(self.options.min_p);
        Ok(left.draw(self.random.rand_float()))
    }

    /// Takes `id` into the window of the repetition penalty: a token of the prompt, or one picked.
    pub fn accept(&mut self, id: u32) {
        if !self.options.penalises() {
            return;
        }
        if self.window.len() == self.options.repetition_window {
            self.window.pop_front();
        }
        self.window.push_back(id);
    }

    /// What the penalty and top-k leave.
    fn survivors(&self, candidates: &Candidates<'_>) -> Result<Survivors> {
        match *candidates {
            Candidates::Row(row) => {
                let mut logits = filter::numbered(row);
                self.penalise(&mut logits)?;
                let ordered = self.options.top_p < 1.0;
                Survivors::of_row(logits, self.options.keeps(), ordered)
            }
            Candidates::Top {
                vocabulary,
                largest,
            } => match self.needs() {
                Needs::Top(k) => Survivors::of_top(vocabulary, largest, k),
                Needs::All => {
                    let got = format!("the {} largest", largest.len());
                    Err(refused("candidates", "all logits", got))
                }
            },
        }
    }

    /// Divides positive logits of the window's tokens by the penalty and multiplies the others.
    fn penalise(&self, logits: &mut [(u32, f32)]) -> Result<()> {
        let mut ids: Vec<u32> = self.window.iter().copied().collect();
        ids.sort_unstable();
        ids.dedup();
        let (vocabulary, penalty) = (logits.len(), self.options.repetition_penalty);
        for id in ids {
            let (_, logit) = logits.get_mut(id as usize).ok_or_else(|| {
                refused(
                    "accepted tokens",
                    format!("ids below the {vocabulary} logits"),
                    id,
                )
            })?;
            *logit = if *logit > 0.0 {
                *logit / penalty
            } else {
                *logit * penalty
            };
        }
        Ok(())
    }
}

fn refused(argument: &'static str, expected: impl ToString, got: impl ToString) -> Error {
    Error::input("sample", argument, expected, got)
}
