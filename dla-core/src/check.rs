//! What every argument of a call is held to.

use crate::error::{Error, Result};

/// Refuses an array of another length than its shape asks for.
pub(crate) fn check_len(argument: &'static str, got: usize, expected: usize) -> Result<()> {
    if got == expected {
        return Ok(());
    }
    let expected = format!("{expected} values");
    Err(Error::input("op", argument, expected, got))
}

/// Refuses the first value that `fits` does not accept.
pub(crate) fn check_all<T: std::fmt::Display>(
    argument: &'static str,
    values: &[T],
    expected: &str,
    fits: impl Fn(&T) -> bool,
) -> Result<()> {
    match values.iter().position(|value| !fits(value)) {
        Some(at) => {
            let got = format!("{} at index {at}", values[at]);
            Err(Error::input("op", argument, expected, got))
        }
        None => Ok(()),
    }
}
