//! The information score (`docs/algorithm.md` §3): how far a token's contribution lies from the open state.

use crate::config::{Config, Norm};
use crate::dims::Dims;
use crate::real::Real;
use crate::vector::square_norm;

/// The largest score under [`Norm::Rms`]: the distance of two opposite unit vectors.
pub const CAP: f64 = 2.0;

/// A carried ‖S‖² below this share of [`Erased`] has cancelled.
pub const CANCELLED: f64 = 1.0 / 64.0;

/// What has been subtracted from a carried ‖S‖² since it was measured, decayed with it: the rounding of these
/// differences stays in ‖S‖², however small that becomes.
///
/// ```
/// use dla_core::dla::score::Erased;
/// let mut erased = Erased::default();
/// erased.transition(0.5, 1.0, 0.5); // a decay subtracts nothing
/// assert!(!erased.cancels(0.5));
/// erased.transition(1.0, 0.5, 0.005); // all but a hundredth is erased
/// assert!(erased.cancels(0.005));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Erased<R>(R);

impl<R: Real> Erased<R> {
    /// A transition that scales squares by `decay` took ‖S‖² from `before` to `after`.
    pub fn transition(&mut self, decay: R, before: R, after: R) {
        self.0 = decay * self.0 + not_negative(decay * before - after);
    }

    /// A contribution s joined, `cross` = ⟨s, S⟩.
    pub fn join(&mut self, cross: R) {
        self.0 += not_negative(-(cross + cross));
    }

    /// Two states became one, `cross` their inner product.
    pub fn merge(&mut self, other: Self, cross: R) {
        self.0 += other.0;
        self.join(cross);
    }

    /// True where `state`, carried so far, has lost its digits; never for NaN.
    pub fn cancels(&self, state: R) -> bool {
        state < R::from_f64(CANCELLED) * self.0
    }
}

/// The scalars that the score needs of a contribution s and an open state S.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Products<R> {
    /// ‖s‖².
    pub ss: R,
    /// ‖S‖².
    pub state: R,
    /// ⟨s, S⟩.
    pub cross: R,
}

impl<R: Real> Products<R> {
    /// ‖S + s‖², the open state's squared norm after the token has joined; rounding below 0 counts as 0.
    pub fn joined(&self) -> R {
        let two = R::ONE + R::ONE;
        not_negative(not_negative(self.state) + two * self.cross + self.ss)
    }
}

/// The score's settings.
///
/// ```
/// use dla_core::{Backbone, Config, Dims};
/// use dla_core::dla::score::{Products, Score};
/// let dims = Dims { batch: 1, tokens: 1, heads: 1, groups: 1, key_dim: 1, value_dim: 2, capacity: 1 };
/// let score = Score::<f64>::new(&dims, &Config::new(Backbone::Plain));
/// // Two unrelated contributions score √2, by either form.
/// let (s, state) = ([3.0, 0.0], [0.0, 5.0]);
/// let products = Products { ss: 9.0, state: 25.0, cross: 0.0 };
/// assert!((score.of_matrices(&s, &state) - 2f64.sqrt()).abs() < 1e-9);
/// assert!((score.of_products(products) - 2f64.sqrt()).abs() < 1e-9);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Score<R> {
    norm: Norm,
    epsilon: R,
    size: R,
}

impl<R: Real> Score<R> {
    /// The score of states of `dims` under `config`'s norm and ε.
    pub fn new(dims: &Dims, config: &Config) -> Self {
        Self {
            norm: config.norm,
            epsilon: R::from_f64(config.epsilon),
            size: R::from_f64(dims.state_len() as f64),
        }
    }

    /// I from the matrices themselves, `s` and `state` `[key_dim, value_dim]`.
    ///
    /// Without the cancellation of [`Score::of_products`], so this is the form that others are judged by.
    /// Not finite where a matrix or its square norm is not: dividing by an infinite norm would hide it.
    pub fn of_matrices(&self, s: &[R], state: &[R]) -> R {
        let squares = square_norm(s) + square_norm(state);
        if !squares.is_finite() {
            return squares;
        }
        let r = self.scale(square_norm(s));
        let big_r = self.scale(square_norm(state));
        let distance: R = s
            .iter()
            .zip(state)
            .map(|(&s, &x)| square(s * r - x * big_r))
            .sum();
        let size: R = state.iter().map(|&x| square(x * big_r)).sum();
        self.cap(distance.sqrt() / (size.sqrt() + self.epsilon))
    }

    /// I from three scalars: `I² (R‖S‖+ε)² = r²‖s‖² − 2rRc + R²‖S‖²`.
    ///
    /// Rounding may leave ‖S‖² or the bracket slightly negative; both count as 0 then.
    pub fn of_products(&self, products: Products<R>) -> R {
        let ss = products.ss;
        let state = not_negative(products.state);
        let (r, big_r) = (self.scale(ss), self.scale(state));
        let two = R::ONE + R::ONE;
        let bracket = r * r * ss - two * r * big_r * products.cross + big_r * big_r * state;
        let distance = not_negative(bracket).sqrt();
        self.cap(distance / (big_r * state.sqrt() + self.epsilon))
    }

    /// The factor that normalises a matrix whose squared norm is `square`.
    fn scale(&self, square: R) -> R {
        match self.norm {
            Norm::Rms => R::ONE / (square / self.size + self.epsilon).sqrt(),
            Norm::None => R::ONE,
        }
    }

    /// min(2, I) under the rms norm; NaN stays NaN.
    fn cap(&self, score: R) -> R {
        let cap = R::from_f64(CAP);
        if self.norm == Norm::Rms && score > cap {
            cap
        } else {
            score
        }
    }
}

fn square<R: Real>(x: R) -> R {
    x * x
}

/// 0 for a negative value; NaN stays NaN, which `max` would hide.
fn not_negative<R: Real>(x: R) -> R {
    if x < R::ZERO { R::ZERO } else { x }
}
