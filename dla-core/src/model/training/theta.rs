//! The gate's θ of a step.

use crate::dla::gate::check_theta;
use crate::error::Result;

/// θ from step to step: constant, or geometrically from `start` to `end`; a pure function of the step.
///
/// With s the steps done before, counted from 0, of N in all:
///
/// ```text
/// θ = start · (end / start)^(s / (N − 1))    the first step has `start`, the last one `end`
/// ```
///
/// ```
/// use dla_core::model::training::Theta;
/// let theta = Theta { start: 0.4, end: 0.1, steps: 5 };
/// assert_eq!([0, 4, 9].map(|step| theta.at(step)), [0.4, 0.1, 0.1]);
/// assert!((theta.at(2) - 0.2).abs() < 1e-15);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Theta {
    /// θ of the first step.
    pub start: f64,
    /// θ of the last step.
    pub end: f64,
    /// Steps in all.
    pub steps: u64,
}

impl Theta {
    /// θ of the step that `step` steps came before.
    pub fn at(&self, step: u64) -> f64 {
        if step == 0 || self.start == self.end {
            return self.start;
        }
        if step >= self.steps.saturating_sub(1) {
            return self.end;
        }
        let done = step as f64 / (self.steps - 1) as f64;
        (self.start.ln() + done * (self.end.ln() - self.start.ln())).exp()
    }

    /// Refuses ends that no gate can have.
    ///
    /// # Errors
    /// An input error that names the setting.
    pub fn check(&self) -> Result<()> {
        check_theta("gate", "theta", self.start)?;
        check_theta("gate", "theta_end", self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::Theta;

    const FALLING: Theta = Theta {
        start: 0.8,
        end: 0.05,
        steps: 101,
    };

    #[test]
    fn it_goes_geometrically_from_the_first_step_to_the_last() {
        assert_eq!((FALLING.at(0), FALLING.at(100)), (0.8, 0.05));
        assert!(
            (FALLING.at(50) - 0.2).abs() < 1e-15,
            "the middle is the geometric mean"
        );
        let ratio = FALLING.at(1) / FALLING.at(0);
        for step in 1..=100 {
            let next = FALLING.at(step) / FALLING.at(step - 1);
            assert!((next - ratio).abs() < 1e-12, "step {step}");
        }
        assert_eq!(FALLING.at(1000), 0.05);
        let rising = Theta {
            start: 0.05,
            end: 0.8,
            ..FALLING
        };
        assert!((rising.at(25) - 0.1).abs() < 1e-15);
    }

    #[test]
    fn constants_and_short_runs_have_no_way_to_go() {
        let constant = Theta {
            end: 0.8,
            ..FALLING
        };
        assert!((0..200).all(|step| constant.at(step) == 0.8));
        for steps in [0, 1] {
            let short = Theta { steps, ..FALLING };
            assert_eq!([0, 1].map(|step| short.at(step)), [0.8, 0.05]);
        }
        let far = Theta {
            start: 1e-300,
            end: 1e300,
            steps: 3,
        };
        assert!((far.at(1) - 1.0).abs() < 1e-9, "{}", far.at(1));
    }

    #[test]
    fn ends_without_meaning_are_refused() {
        assert!(FALLING.check().is_ok());
        for bad in [0.0, -0.1, f64::NAN, f64::INFINITY, 1e-50, 1e39] {
            let start = Theta {
                start: bad,
                ..FALLING
            };
            let end = Theta {
                end: bad,
                ..FALLING
            };
            for (name, theta) in [("theta", start), ("theta_end", end)] {
                let error = theta.check().expect_err("no meaning");
                assert!(error.is_input() && error.argument() == name, "{error}");
            }
        }
    }
}
