//! Error scopes: what a device refuses becomes an [`Error`] instead of a panic.

use dla_core::{Error, Result};

/// Runs `create` and returns what it made, or the first error that the device raised meanwhile.
pub(crate) async fn scoped<T>(
    device: &wgpu::Device,
    op: &'static str,
    argument: &'static str,
    create: impl FnOnce() -> T,
) -> Result<T> {
    let filters = [
        wgpu::ErrorFilter::Internal,
        wgpu::ErrorFilter::OutOfMemory,
        wgpu::ErrorFilter::Validation,
    ];
    let guards = filters.map(|filter| device.push_error_scope(filter));
    let made = create();
    let mut raised = None;
    for guard in guards.into_iter().rev() {
        raised = guard.pop().await.or(raised);
    }
    match raised {
        None => Ok(made),
        Some(error) => Err(Error::device(
            op,
            argument,
            "accepted by the device",
            line(&error),
        )),
    }
}

/// A device's error on one line.
fn line(error: &wgpu::Error) -> String {
    let text = error.to_string();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
