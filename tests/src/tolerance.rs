//! How near is near: relative root mean square, and where two arrays part.

use dla_core::Output;

/// Relative root-mean-square error of `got` against `expected`. NaN and infinities are infinitely far from all but
/// themselves.
pub fn relative_rms(got: &[f32], expected: &[f64]) -> f64 {
    assert_eq!(got.len(), expected.len(), "arrays of one length");
    let (mut error, mut size) = (0.0, 0.0);
    for (&got, &expected) in got.iter().zip(expected) {
        let difference = f64::from(got) - expected;
        let same = (expected.is_nan() && got.is_nan()) || f64::from(got) == expected;
        if expected.is_finite() && got.is_finite() {
            error += difference * difference;
            size += expected * expected;
        } else if !same {
            return f64::INFINITY;
        }
    }
    if error == 0.0 {
        0.0
    } else {
        (error / size.max(f64::MIN_POSITIVE)).sqrt()
    }
}

/// Numbers in double precision.
pub fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| value.into()).collect()
}

/// Fails with the worst position, both values and the tolerance when `got` is too far from `expected`.
#[track_caller]
pub fn assert_near(case: &str, array: &str, got: &[f32], expected: &[f64], tolerance: f64) {
    let rms = relative_rms(got, expected);
    if rms.is_nan() || rms > tolerance {
        let difference = |i: usize| (f64::from(got[i]) - expected[i]).abs();
        let worst = (0..got.len())
            .max_by(|&a, &b| f64::total_cmp(&difference(a), &difference(b)))
            .unwrap_or(0);
        panic!(
            "{case}, {array}: relative rms {rms:.3e} > {tolerance:.0e}; worst at {worst} of {}: got {}, expected {}; rerun with CASE={case}",
            got.len(),
            got[worst],
            expected[worst]
        );
    }
}

/// Fails where a score is further from the reference than its f32 Gram form allows: 1e-4 above 0.02, 2e-3 below.
#[track_caller]
pub fn assert_scores_near(case: &str, got: &[f32], expected: &[f32]) {
    assert_eq!(got.len(), expected.len(), "{case}, score: length");
    for (at, (&got, &expected)) in got.iter().zip(expected).enumerate() {
        let tolerance = if expected > 0.02 {
            1e-4 * expected.max(1.0)
        } else {
            2e-3
        };
        let near =
            (got - expected).abs() <= tolerance || (!got.is_finite() && !expected.is_finite());
        assert!(
            near,
            "{case}, score at {at}: got {got}, expected {expected}, tolerance {tolerance}; rerun with CASE={case}"
        );
    }
}

/// How near an output must be to the reference under the same decisions, in relative rms; states are always 1e-4 near.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// Of `o`.
    pub o: f64,
    /// Of the states' information.
    pub info: f64,
}

impl Default for Tolerance {
    fn default() -> Self {
        Self {
            o: 1e-4,
            info: 1e-4,
        }
    }
}

/// Fails where a whole output is not the reference's: decisions and counts equal, numbers near.
#[track_caller]
pub fn assert_output_near(
    case: &str,
    got: &Output<f32>,
    expected: &Output<f64>,
    tolerance: Tolerance,
) {
    let (trace, wanted) = (&got.trace, &expected.trace);
    assert_eq!(trace.decisions, wanted.decisions, "{case}");
    assert_eq!(trace.count, wanted.count, "{case}");
    assert_eq!(trace.non_finite, wanted.non_finite, "{case}");
    assert_scores_near(case, &trace.score, &wanted.score);
    assert_near(case, "o", &got.o, &expected.o, tolerance.o);
    let (cache, wanted) = (&got.cache, &expected.cache);
    assert_eq!(cache.n, wanted.n, "{case}");
    assert_near(case, "states", &cache.states, &wanted.states, 1e-4);
    assert_near(case, "info", &cache.info, &wanted.info, tolerance.info);
}

#[cfg(test)]
mod tests {
    use super::relative_rms;

    #[test]
    fn what_is_no_number_is_near_itself_only() {
        let values = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1.0];
        for (i, got) in values.into_iter().enumerate() {
            for (j, expected) in values.into_iter().enumerate() {
                let rms = relative_rms(&[got, 2.0], &[expected.into(), 2.0]);
                let far = if i == j { 0.0 } else { f64::INFINITY };
                assert_eq!(rms, far, "{got} against {expected}");
            }
        }
    }
}
