//! The numbers the reference runs on: `f32` as the GPU does, `f64` as the yardstick.

use std::fmt::{Debug, Display};
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, MulAssign, Neg, Sub, SubAssign};

/// A floating-point number of the reference, `f32` or `f64`.
pub trait Real:
    Copy
    + Send
    + Sync
    + Debug
    + Display
    + Default
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
    + Sum
    + 'static
{
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// +∞.
    const INFINITY: Self;

    /// Magnitudes below this count as 0 in states and reads. In single precision 2⁻¹⁰⁰: products of such values
    /// leave the normal range, which costs most processors a hundred times a product's time and which GPUs take
    /// for 0 as well. The yardstick neglects nothing.
    const NEGLIGIBLE: Self;

    /// NaN.
    const NAN: Self;
    /// The least positive normal number.
    const LEAST_NORMAL: Self;

    /// A log decay at which nothing is left: e to its power is 0. Lower ones count as this one, so that their sums stay
    /// finite.
    const ERASED: Self;

    /// A power of two that brings numbers whose squares overflow to where they do not.
    const SHRINK: Self;
    /// A power of two that brings numbers whose squares vanish to where they do not.
    const GROW: Self;
    /// Means of squares below this one may have lost some of them.
    const LEAST_SQUARE: Self;

    /// Bytes in memory and in files.
    const BYTES: usize;

    /// The nearest value of this type.
    fn from_f64(x: f64) -> Self;
    /// This value in double precision, exact.
    fn to_f64(self) -> f64;
    /// e to the power of this value.
    fn exp(self) -> Self;
    /// The natural logarithm.
    fn ln(self) -> Self;
    /// ln(1 + x), without loss for small x.
    fn ln_1p(self) -> Self;
    /// The square root.
    fn sqrt(self) -> Self;
    /// Neither infinite nor NaN.
    fn is_finite(self) -> bool;
    /// NaN.
    fn is_nan(self) -> bool;
    /// The magnitude.
    fn abs(self) -> Self;

    /// True below [`NEGLIGIBLE`](Self::NEGLIGIBLE); never for NaN.
    fn is_negligible(self) -> bool {
        self.abs() < Self::NEGLIGIBLE
    }

    /// 0 where the value is negligible; NaN stays NaN.
    fn flushed(self) -> Self {
        if self.is_negligible() {
            Self::ZERO
        } else {
            self
        }
    }
}

macro_rules! real {
    ($t:ty, $negligible:expr, $erased:expr, $shrink:expr, $grow:expr, $least_square:expr) => {
        impl Real for $t {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const INFINITY: Self = <$t>::INFINITY;
            const NEGLIGIBLE: Self = $negligible;
            const NAN: Self = <$t>::NAN;
            const LEAST_NORMAL: Self = <$t>::MIN_POSITIVE;
            const ERASED: Self = $erased;
            const SHRINK: Self = $shrink;
            const GROW: Self = $grow;
            const LEAST_SQUARE: Self = $least_square;
            const BYTES: usize = size_of::<$t>();
            fn from_f64(x: f64) -> Self {
                x as $t
            }
            fn to_f64(self) -> f64 {
                f64::from(self)
            }
            fn exp(self) -> Self {
                self.exp()
            }
            fn ln(self) -> Self {
                self.ln()
            }
            fn ln_1p(self) -> Self {
                self.ln_1p()
            }
            fn sqrt(self) -> Self {
                self.sqrt()
            }
            fn is_finite(self) -> bool {
                self.is_finite()
            }
            fn is_nan(self) -> bool {
                self.is_nan()
            }
            fn abs(self) -> Self {
                self.abs()
            }
        }
    };
}
real!(
    f32,
    1.0 / (1u128 << 100) as f32,
    -110.0,
    f32::from_bits((127 - 96) << 23),
    f32::from_bits((127 + 96) << 23),
    f32::from_bits((127 - 90) << 23)
);
real!(
    f64,
    0.0,
    -750.0,
    f64::from_bits((1023 - 768) << 52),
    f64::from_bits((1023 + 768) << 52),
    f64::from_bits((1023 - 900) << 52)
);

#[cfg(test)]
mod tests {
    use super::Real;

    fn constants<R: Real>(largest: R, loss: R) {
        assert_eq!(R::ERASED.exp(), R::ZERO);
        let shrunk = largest * R::SHRINK;
        assert!((shrunk * shrunk).is_finite(), "{shrunk}");
        let grown = R::LEAST_NORMAL * R::GROW;
        assert!(grown * grown >= R::LEAST_NORMAL, "{grown}");
        // What a mean loses by squares that vanish does not show.
        let million = R::from_f64(1e6);
        assert!(R::LEAST_NORMAL <= R::LEAST_SQUARE * loss);
        // What is not small enough to be grown, is not too large when it was.
        let most = (R::LEAST_SQUARE * million).sqrt() * R::GROW;
        assert!((most * most).is_finite(), "{most}");
    }

    #[test]
    fn units_bring_squares_into_range() {
        constants(f32::MAX, 1e-10);
        constants(f64::MAX, 1e-30);
    }
}
