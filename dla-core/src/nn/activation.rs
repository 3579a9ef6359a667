//! Functions of one number, stable at both ends.

use crate::real::Real;

/// 1 / (1 + e^−x).
pub fn sigmoid<R: Real>(x: R) -> R {
    let e = (-x.abs()).exp();
    if x < R::ZERO {
        e / (R::ONE + e)
    } else {
        R::ONE / (R::ONE + e)
    }
}

/// The derivative of [`sigmoid`], σ(x) σ(−x).
pub fn sigmoid_slope<R: Real>(x: R) -> R {
    sigmoid(x) * sigmoid(-x)
}

/// x · sigmoid(x); NaN stays NaN.
pub fn silu<R: Real>(x: R) -> R {
    x * sigmoid(x)
}

/// The derivative of [`silu`], σ(x) (1 + x σ(−x)).
pub fn silu_slope<R: Real>(x: R) -> R {
    sigmoid(x) * (R::ONE + x * sigmoid(-x))
}

/// ln(1 + e^x), without overflow for large x and without loss for small; NaN stays NaN. Its
/// derivative is [`sigmoid`].
///
/// ```
/// use dla_core::nn::activation::softplus;
/// assert_eq!(softplus(100.0), 100.0);
/// assert_eq!(softplus(-80.0), (-80.0f32).exp());
/// ```
pub fn softplus<R: Real>(x: R) -> R {
    let positive = if x < R::ZERO { R::ZERO } else { x };
    positive + (-x.abs()).exp().ln_1p()
}

#[cfg(test)]
mod tests {
    use super::{sigmoid, sigmoid_slope, silu, silu_slope, softplus};

    #[test]
    fn agree_with_double_precision() {
        for step in -60..=60 {
            let x = step as f32 * 0.5;
            let exact = f64::from(x);
            let close = |got: f32, want: f64| (f64::from(got) - want).abs() <= 1e-6 * want.abs();
            assert!(close(softplus(x), exact.exp().ln_1p()), "softplus({x})");
            assert!(
                close(sigmoid(x), 1.0 / (1.0 + (-exact).exp())),
                "sigmoid({x})"
            );
            assert!(close(silu(x), exact / (1.0 + (-exact).exp())), "silu({x})");
        }
    }

    #[test]
    fn slopes_are_finite_differences() {
        type Pair = (fn(f64) -> f64, fn(f64) -> f64);
        let pairs: [Pair; 3] = [
            (sigmoid, sigmoid_slope),
            (silu, silu_slope),
            (softplus, sigmoid),
        ];
        for (function, slope) in pairs {
            for step in -20..=20 {
                let (x, h) = (f64::from(step) * 0.7, 1e-5);
                let difference = (function(x + h) - function(x - h)) / (2.0 * h);
                assert!((difference - slope(x)).abs() < 1e-9, "at {x}");
            }
        }
        assert_eq!((silu_slope(800.0), silu_slope(-800.0)), (1.0, 0.0));
        assert!(silu_slope(f64::NAN).is_nan());
    }

    #[test]
    fn ends_stay_finite_and_nan_stays() {
        assert_eq!(softplus(f32::MAX), f32::MAX);
        assert_eq!(softplus(f32::MIN), 0.0);
        assert_eq!((sigmoid(f32::MIN), sigmoid(f32::MAX)), (0.0, 1.0));
        assert!(softplus(f32::NAN).is_nan() && silu(f32::NAN).is_nan());
    }
}
