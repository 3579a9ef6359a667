//! Error scopes: what a device refuses becomes an [`Error`] instead of a panic.

use dla_core::{Error, Result};

const FILTERS: [wgpu::ErrorFilter; 3] = [
    wgpu::ErrorFilter::Internal,
    wgpu::ErrorFilter::OutOfMemory,
    wgpu::ErrorFilter::Validation,
];

/// Runs `create` and returns what it made, or the first error that the device raised meanwhile.
pub(crate) async fn scoped<T>(
    device: &wgpu::Device,
    op: &'static str,
    argument: &'static str,
    create: impl FnOnce() -> T,
) -> Result<T> {
    let (made, answers) = {
        let guards = FILTERS.map(|filter| device.push_error_scope(filter));
        let made = create();
        // Closed before anybody waits, for meanwhile other calls may go on, with errors of their own.
        let answers: Vec<_> = guards.into_iter().rev().map(|guard| guard.pop()).collect();
        (made, answers)
    };
    let mut raised = None;
    for answer in answers {
        raised = answer.await.or(raised);
    }
    match raised {
        None => Ok(made),
        Some(error) => Err(refusal(op, argument, &line(&error))),
    }
}

/// A lost device hands out objects without a word; that they are invalid shows where they are used.
fn refusal(op: &'static str, argument: &'static str, told: &str) -> Error {
    let error = Error::device(op, argument, "accepted by the device", told);
    if told.contains("is invalid") {
        error.advise("the device is probably lost: open another")
    } else {
        error
    }
}

/// A device's error on one line.
fn line(error: &wgpu::Error) -> String {
    let text = error.to_string();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
