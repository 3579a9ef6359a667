//! The gate through which τ is learned (`docs/algorithm.md` §11), and the soft recurrence that it defines.

use super::state::State;
use crate::error::{Error, Result};
use crate::real::Real;
use crate::vector::add_scaled;

/// How boundaries take part in training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum GateMode {
    /// τ is fixed.
    Hard,
    /// The hard recurrence forward; τ learns through the gate's slope.
    #[default]
    StraightThrough,
    /// The soft recurrence forward, γ = σ((I − τ)/θ), and its gradient; the score's own gradient stops at τ.
    Soft,
}

impl std::str::FromStr for GateMode {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self> {
        match word {
            "hard" => Ok(Self::Hard),
            "straight-through" => Ok(Self::StraightThrough),
            "soft" => Ok(Self::Soft),
            _ => Err(Error::input(
                "op",
                "gate",
                "hard|straight-through|soft",
                word,
            )),
        }
    }
}

/// The gate's mode and width.
///
/// ```
/// use dla_core::dla::gate::Gate;
/// let gate = Gate::default();
/// assert_eq!(gate.value(0.9, 0.9), 0.5);
/// assert_eq!(gate.slope(0.9, 0.9), 0.25 / 0.1);
/// assert_eq!(gate.value(1.0, f64::INFINITY), 0.0);
/// assert_eq!(gate.value(f64::NAN, 0.9), 0.0);
/// assert!(Gate { theta: 1e-50, ..gate }.check().is_err()); // 0 in f32
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gate {
    /// The mode.
    pub mode: GateMode,
    /// θ, above 0: how far from τ a score still moves the gate.
    pub theta: f64,
}

impl Default for Gate {
    fn default() -> Self {
        Self {
            mode: GateMode::default(),
            theta: 0.1,
        }
    }
}

impl Gate {
    /// Refuses a θ that is not above 0, and one that single precision has no normal number for: the slope would be
    /// infinite there.
    ///
    /// # Errors
    /// An input error about `theta`.
    pub fn check(&self) -> Result<()> {
        check_theta("op", "theta", self.theta)
    }

    /// γ = σ((I − τ)/θ); 0 where the score is not finite.
    pub fn value<R: Real>(&self, score: R, tau: R) -> R {
        if !score.is_finite() {
            return R::ZERO;
        }
        let x = (score - tau) / R::from_f64(self.theta);
        R::ONE / (R::ONE + (-x).exp())
    }

    /// dγ/dI = γ (1 − γ) / θ.
    pub fn slope<R: Real>(&self, score: R, tau: R) -> R {
        let gamma = self.value(score, tau);
        gamma * (R::ONE - gamma) / R::from_f64(self.theta)
    }
}

/// Refuses a width that no gate can have.
pub(crate) fn check_theta(op: &'static str, argument: &'static str, theta: f64) -> Result<()> {
    let single = theta as f32;
    match single.is_normal() && single > 0.0 {
        true => Ok(()),
        false => {
            let expected = "above 0, and neither too small nor too large for f32";
            Err(Error::input(op, argument, expected, theta))
        }
    }
}

/// Moves γ of the open state into the one before it: the soft recurrence's step before the write.
///
/// Where the token `opens` a state, the open state closes with γ of itself and the rest begins the
/// new one, which has no token yet. Where there are not two states nothing moves. With γ = 1 at
/// boundaries and 0 elsewhere this is the hard recurrence.
pub fn release<R: Real>(states: &mut Vec<State<R>>, opens: bool, gamma: R) {
    if opens {
        let mut matrix = states
            .last()
            .map_or_else(Vec::new, |open| open.matrix.clone());
        scale(&mut matrix, R::ONE - gamma);
        if let Some(closed) = states.last_mut() {
            scale(&mut closed.matrix, gamma);
            states.push(State {
                matrix,
                n: 0,
                info: R::ZERO,
            });
        }
    } else if let [.., previous, open] = &mut states[..] {
        add_scaled(&mut previous.matrix, gamma, &open.matrix);
        scale(&mut open.matrix, R::ONE - gamma);
    }
}

fn scale<R: Real>(x: &mut [R], scale: R) {
    for x in x {
        *x *= scale;
    }
}
