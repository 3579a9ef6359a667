//! The log decay of a mixer's states, g = −e^{A_log}·Δ with Δ = softplus(step), whatever A_log and the step are.
//!
//! e^{A_log} overflows and Δ vanishes where their product is an ordinary number, so a large A_log is kept as it is and
//! the product is taken in logarithms. g is held at [`Real::ERASED`], whose exponential is 0: there, no gradient is left.

use super::activation::sigmoid;
use crate::real::Real;

/// A_log up to here is kept as −e^{A_log}: times the smallest normal Δ, that is a decay by nothing.
const MOST_EXPONENT: f64 = 40.0;

/// What mixers keep of A_log: −e^{A_log}, or A_log itself where it is above 40.
///
/// ```
/// use dla_core::nn::decay::rate;
/// assert_eq!([0.0, 100.0].map(rate::<f32>), [-1.0, 100.0]);
/// ```
pub fn rate<R: Real>(a_log: R) -> R {
    if is_exponent(a_log) {
        a_log
    } else {
        -a_log.exp()
    }
}

/// g of a head of this [`rate`] at Δ = `size`, which is softplus(`step`), perhaps clamped; NaN stays NaN.
///
/// ```
/// use dla_core::nn::activation::softplus;
/// use dla_core::nn::decay::{log_decay, rate};
/// // e^100 is beyond f32, e^100 · softplus(−101) is not.
/// let g = log_decay(rate(100.0f32), -101.0, softplus(-101.0));
/// assert!((g + (-1.0f32).exp()).abs() < 1e-6);
/// assert_eq!(log_decay(rate(100.0f32), 0.0, softplus(0.0)).exp(), 0.0);
/// ```
pub fn log_decay<R: Real>(rate: R, step: R, size: R) -> R {
    let g = if is_exponent(rate) {
        -(rate + log_size(step, size)).exp()
    } else {
        rate * size
    };
    if g < R::ERASED { R::ERASED } else { g }
}

/// ∂g/∂step of [`log_decay`] where Δ follows softplus.
pub fn log_decay_slope<R: Real>(rate: R, step: R, size: R) -> R {
    let slope = sigmoid(step);
    if !is_exponent(rate) {
        return rate * slope;
    }
    let share = if size < R::LEAST_NORMAL {
        R::ONE // e^step both
    } else {
        slope / size
    };
    log_decay(rate, step, size) * share
}

/// Whether a rate is A_log itself.
fn is_exponent<R: Real>(rate: R) -> bool {
    rate > R::from_f64(MOST_EXPONENT)
}

/// ln Δ; far down, softplus is e^step.
fn log_size<R: Real>(step: R, size: R) -> R {
    if size < R::LEAST_NORMAL {
        step
    } else {
        size.ln()
    }
}

#[cfg(test)]
mod tests {
    use super::{log_decay, log_decay_slope, rate};
    use crate::nn::activation::softplus;

    /// e^g of A_log and the step, in single precision.
    fn decay(a_log: f32, step: f32) -> f32 {
        log_decay(rate(a_log), step, softplus(step)).exp()
    }

    #[test]
    fn decays_are_those_of_double_precision() {
        for a_log in [
            -200.0, -3.0, 0.0, 1.5, 39.9, 40.1, 80.0, 88.0, 89.0, 100.0, 500.0,
        ] {
            for below in [
                -600.0, -120.0, -20.0, -3.0, -1.0, 0.0, 1.0, 3.0, 20.0, 300.0f32,
            ] {
                // Steps around the one where the decay turns from 1 to 0.
                let step = below - a_log;
                let exact = f64::from(step);
                let log_size = if exact < -700.0 {
                    exact
                } else {
                    softplus(exact).ln()
                };
                let want = (-(f64::from(a_log) + log_size).exp()).exp();
                let got = f64::from(decay(a_log, step));
                assert!(
                    (got - want).abs() < 2e-5,
                    "{a_log}, {step}: {got}, not {want}"
                );
            }
        }
    }

    #[test]
    fn far_out_nothing_is_left_and_nothing_is_nan() {
        for (a_log, step) in [
            (100.0, 3e38),
            (3e38, 3e38),
            (3e38, 0.0),
            (0.0, 3e38),
            (88.0, 88.0),
        ] {
            assert_eq!(decay(a_log, step), 0.0, "{a_log}, {step}");
        }
        for (a_log, step) in [
            (100.0, -3e38),
            (-3e38, 0.0),
            (0.0, -3e38),
            (3e38, f32::NEG_INFINITY),
        ] {
            assert_eq!(decay(a_log, step), 1.0, "{a_log}, {step}");
        }
        assert!(decay(100.0, f32::NAN).is_nan() && decay(1.0, f32::NAN).is_nan());
    }

    #[test]
    fn slopes_are_finite_differences() {
        for (a_log, step) in [
            (0.5, 0.3),
            (39.0, -38.0),
            (41.0, -40.5),
            (100.0, -101.0),
            (900.0, -901.0),
        ] {
            let g = |step: f64| log_decay(rate(a_log), step, softplus(step));
            let difference = (g(step + 1e-6) - g(step - 1e-6)) / 2e-6;
            let slope = log_decay_slope(rate(a_log), step, softplus(step));
            assert!(
                (difference / slope - 1.0).abs() < 1e-6,
                "{a_log}: {slope}, not {difference}"
            );
        }
    }
}
