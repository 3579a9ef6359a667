//! The loss of next-token prediction.

use super::attention::softmax;
use crate::error::{Error, Result};
use crate::real::Real;

/// What errors call the loss.
const OP: &str = "cross-entropy";
/// The target of a row that does not count: −1 as files of 32-bit labels have it.
pub const IGNORED: u32 = u32::MAX;

/// A loss and its gradient.
#[derive(Clone, Debug, PartialEq)]
pub struct Loss<R> {
    /// In nats, the mean over the targets that count.
    pub value: R,
    /// How many counted.
    pub counted: usize,
    /// By the logits, `[rows, vocabulary]`; zeros in ignored rows.
    pub d_logits: Vec<R>,
}

/// Cross-entropy: the mean of −ln softmax(logits)_target over the rows whose target is not [`IGNORED`].
///
/// `logits` `[rows, vocabulary]`, `targets` `[rows]`. NaN stays NaN.
///
/// # Errors
/// For logits of another length, a target beyond the vocabulary, and no target that counts.
///
/// ```
/// use dla_core::nn::loss::{IGNORED, cross_entropy};
/// let loss = cross_entropy(&[0.0, 0.0, 9.0, 9.0], 2, &[1, IGNORED])?;
/// assert_eq!(loss.value, 2f64.ln());
/// assert_eq!(loss.d_logits, [0.5, -0.5, 0.0, 0.0]);
/// # Ok::<(), dla_core::Error>(())
/// ```
pub fn cross_entropy<R: Real>(logits: &[R], vocabulary: usize, targets: &[u32]) -> Result<Loss<R>> {
    if targets.len().checked_mul(vocabulary) != Some(logits.len()) {
        let expected = format!("{} rows of {vocabulary}", targets.len());
        let got = format!("{} values", logits.len());
        return Err(Error::input(OP, "logits", expected, got));
    }
    let counted = counted(targets, vocabulary)?;
    let share = R::ONE / R::from_f64(counted as f64);
    let mut value = R::ZERO;
    let mut d_logits = logits.to_vec();
    for (row, &target) in d_logits.chunks_exact_mut(vocabulary).zip(targets) {
        if target == IGNORED {
            row.fill(R::ZERO);
            continue;
        }
        let target = target as usize;
        value += share * surprise(row, target);
        softmax(row);
        row[target] -= R::ONE;
        row.iter_mut().for_each(|d| *d *= share);
    }
    Ok(Loss {
        value,
        counted,
        d_logits,
    })
}

/// −ln softmax(row)_target, from the differences to the target: ln Σ e^(x − x_target).
fn surprise<R: Real>(row: &[R], target: usize) -> R {
    let largest = row
        .iter()
        .fold(-R::INFINITY, |a, &b| if b > a { b } else { a });
    let sum: R = row.iter().map(|&x| (x - largest).exp()).sum();
    largest - row[target] + sum.ln()
}

/// How many targets count: the share of each in a mean is one over this.
///
/// # Errors
/// For a target beyond the vocabulary, and where none counts.
pub fn counted(targets: &[u32], vocabulary: usize) -> Result<usize> {
    let beyond = |&target: &u32| target != IGNORED && target as usize >= vocabulary;
    if let Some(row) = targets.iter().position(beyond) {
        let expected = format!("below the vocabulary of {vocabulary}, or ignored");
        let got = format!("{} in row {row}", targets[row]);
        return Err(Error::input(OP, "targets", expected, got));
    }
    match targets.iter().filter(|&&target| target != IGNORED).count() {
        0 => {
            let expected = "at least one that counts";
            Err(Error::input(OP, "targets", expected, "none"))
        }
        counted => Ok(counted),
    }
}

#[cfg(test)]
mod tests {
    use super::{IGNORED, cross_entropy};
    use crate::nn::check::{assert_gradient, numbers};

    #[test]
    fn the_gradient_is_finite_differences() {
        let logits: Vec<f64> = numbers(4 * 5, 1).iter().map(|x| 3.0 * x).collect();
        let targets = [0, IGNORED, 4, 2];
        let loss = |logits: &[f64]| cross_entropy(logits, 5, &targets).expect("valid targets");
        let got = loss(&logits);
        assert_eq!(got.counted, 3);
        assert_gradient("logits", &logits, &got.d_logits, |logits| {
            loss(logits).value
        });
    }

    #[test]
    fn far_logits_stay_finite_and_nan_stays() {
        let loss = |logits: &[f32]| cross_entropy(logits, 2, &[0]).expect("valid targets").value;
        assert_eq!(loss(&[-3e38, 0.0]), 3e38);
        assert_eq!(loss(&[1e4, -1e4]), 0.0);
        assert!(loss(&[f32::NAN, 0.0]).is_nan() && loss(&[0.0, f32::NAN]).is_nan());
    }

    #[test]
    fn mistakes_are_refused() {
        let argument = |logits: &[f64], targets: &[u32]| {
            let error = cross_entropy(logits, 2, targets).expect_err("a mistake");
            assert!(error.is_input());
            error.argument().to_owned()
        };
        assert_eq!(argument(&[0.0; 3], &[0]), "logits");
        assert_eq!(argument(&[0.0; 4], &[0, 2]), "targets");
        assert_eq!(argument(&[0.0; 2], &[IGNORED]), "targets");
    }
}
