//! Functions of one number, stable at both ends.

/// 1 / (1 + e^−x).
pub fn sigmoid(x: f32) -> f32 {
    let e = (-x.abs()).exp();
    if x < 0.0 {
        e / (1.0 + e)
    } else {
        1.0 / (1.0 + e)
    }
}

/// x · sigmoid(x); NaN stays NaN.
pub fn silu(x: f32) -> f32 {
    x * sigmoid(x)
}

/// ln(1 + e^x), without overflow for large x and without loss for small; NaN stays NaN.
///
/// ```
/// use dla_core::nn::activation::softplus;
/// assert_eq!(softplus(100.0), 100.0);
/// assert_eq!(softplus(-80.0), (-80.0f32).exp());
/// ```
pub fn softplus(x: f32) -> f32 {
    let positive = if x < 0.0 { 0.0 } else { x };
    positive + (-x.abs()).exp().ln_1p()
}

#[cfg(test)]
mod tests {
    use super::{sigmoid, silu, softplus};

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
    fn ends_stay_finite_and_nan_stays() {
        assert_eq!(softplus(f32::MAX), f32::MAX);
        assert_eq!(softplus(f32::MIN), 0.0);
        assert_eq!((sigmoid(f32::MIN), sigmoid(f32::MAX)), (0.0, 1.0));
        assert!(softplus(f32::NAN).is_nan() && silu(f32::NAN).is_nan());
    }
}
