//! Numbers that a model must not leave.

use crate::decisions::Trace;
use crate::error::{Error, Result};

/// What to do about it.
const ADVICE: &str = "look for NaN, infinities or very large values among its weights";

/// Refuses values that are not finite. `what` names them: `g`, `logits`.
///
/// # Errors
/// [`Error::is_diverged`] with the first of them.
pub fn check_finite(what: &'static str, values: &[f32]) -> Result<()> {
    match values.iter().find(|value| !value.is_finite()) {
        Some(value) => Err(left(what, value)),
        None => Ok(()),
    }
}

/// Refuses scores that are not finite.
///
/// # Errors
/// [`Error::is_diverged`] with the first of them.
pub fn check_scores(trace: &Trace) -> Result<()> {
    match trace.non_finite {
        0 => Ok(()),
        _ => check_finite("scores", &trace.score),
    }
}

/// Refuses thresholds that are NaN: they are compared, which would hide it. +∞ keeps a single state.
///
/// # Errors
/// An input error.
pub fn check_thresholds(tau: &[f32]) -> Result<()> {
    match tau.iter().any(|tau| tau.is_nan()) {
        true => Err(Error::input("load", "dla.tau", "numbers", "NaN")),
        false => Ok(()),
    }
}

fn left(what: &'static str, value: &f32) -> Error {
    Error::diverged("model", what, "finite numbers", value).advise(ADVICE)
}
