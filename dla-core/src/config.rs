//! What the operator computes: backbone, schedule and the choices of the score and the merge.

use crate::error::{Error, Result};

/// What happens to every state at a token, and what the token writes (`docs/algorithm.md` §2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Backbone {
    /// Linear attention: states stay, the token writes k vᵀ.
    Plain,
    /// A scalar gate, as in Mamba-2: every state decays by e^g, the token writes k vᵀ.
    Decay,
    /// The gated delta rule: S becomes e^g (S − β k (kᵀS)), the token writes β k vᵀ.
    Delta,
}

/// Where states begin and which of them merge (`docs/algorithm.md` §7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Schedule {
    /// One state for the whole sequence.
    Single,
    /// A new state every `block` tokens; a full cache merges its oldest pair.
    Fixed {
        /// Tokens of a state before the next opens, at least 1.
        block: usize,
    },
    /// Log-Linear attention's binary levels.
    Fenwick,
    /// Boundaries where the score reaches τ, merges where the cost is least: Dynamic Linear Attention.
    Dynamic,
    /// The boundaries that minimise the deviation bound over the whole sequence, by dynamic programming.
    Offline,
}

/// How the token and the newest state are scaled before they are compared (`docs/algorithm.md` §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Norm {
    /// Both divided by their root mean square; the score is at most 2.
    Rms,
    /// Neither scaled.
    None,
}

/// Which adjacent pair a full cache merges (`docs/algorithm.md` §5); ties go to the oldest pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MergeCost {
    /// The least information per token of the pair: the paper's rule.
    Density,
    /// The least increase of the squared deviation from the states' means.
    Ward,
    /// The oldest pair, whatever it holds.
    Oldest,
}

/// The operator's settings. Sizes are in [`Dims`](crate::Dims), τ per head in [`Inputs`](crate::Inputs).
///
/// ```
/// use dla_core::{Backbone, Config};
/// let config = Config::new(Backbone::Decay);
/// assert_eq!(config.epsilon, 1e-12);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// The recurrence that DLA is laid over.
    pub backbone: Backbone,
    /// Where states begin and merge.
    pub schedule: Schedule,
    /// The scaling inside the score.
    pub norm: Norm,
    /// The cost that picks the pair to merge.
    pub merge: MergeCost,
    /// ε of the score's denominators.
    pub epsilon: f64,
}

impl Config {
    /// The defaults: dynamic boundaries, RMS-normalised score, density merging, ε = 1e-12.
    pub fn new(backbone: Backbone) -> Self {
        Self {
            backbone,
            schedule: Schedule::Dynamic,
            norm: Norm::Rms,
            merge: MergeCost::Density,
            epsilon: 1e-12,
        }
    }

    /// Refuses a block of no tokens, and an ε that is negative or not finite in single precision.
    pub fn check(&self) -> Result<()> {
        if self.schedule == (Schedule::Fixed { block: 0 }) {
            return Err(Error::input("op", "block", "at least 1", 0));
        }
        let single = self.epsilon as f32;
        if !single.is_finite() || self.epsilon < 0.0 {
            let expected = "at least 0, and finite in f32";
            return Err(Error::input("op", "epsilon", expected, self.epsilon));
        }
        Ok(())
    }
}

/// Gives an enum of the file format its words.
macro_rules! words {
    ($t:ty, $what:literal, $($value:path => $word:literal),+) => {
        impl std::str::FromStr for $t {
            type Err = crate::Error;
            fn from_str(word: &str) -> crate::Result<Self> {
                match word {
                    $($word => Ok($value),)+
                    _ => Err(crate::Error::input("op", $what, [$($word),+].join("|"), word)),
                }
            }
        }
        impl std::fmt::Display for $t {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self { $($value => $word),+ })
            }
        }
    };
}
words!(Backbone, "backbone", Backbone::Plain => "plain", Backbone::Decay => "decay", Backbone::Delta => "delta");
words!(Norm, "norm", Norm::Rms => "rms", Norm::None => "none");
words!(MergeCost, "merge", MergeCost::Density => "density", MergeCost::Ward => "ward", MergeCost::Oldest => "oldest");
