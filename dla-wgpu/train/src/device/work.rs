//! Work of a training step in order, and its recording.

use dla_wgpu::Dispatch;
use dla_wgpu::op::BoundBackward;

/// Work in order.
#[derive(Debug)]
pub(super) enum Work {
    /// One dispatch.
    Dispatch(Dispatch),
    /// Zeros in the place of a buffer.
    Clear(wgpu::Buffer),
    /// Bytes from one buffer to another.
    Copy(wgpu::Buffer, wgpu::Buffer, u64),
    /// The operator backwards.
    Backward(Box<BoundBackward>),
}

/// Dispatches as work.
pub(super) fn dispatched(dispatches: Vec<Dispatch>) -> Vec<Work> {
    dispatches.into_iter().map(Work::Dispatch).collect()
}

/// Records work.
pub(super) fn record(work: &[Work], encoder: &mut wgpu::CommandEncoder) {
    let mut work = work.iter().peekable();
    while let Some(next) = work.next() {
        match next {
            Work::Dispatch(first) => {
                let more = std::iter::from_fn(|| match work.peek() {
                    Some(Work::Dispatch(dispatch)) => work.next().map(|_| dispatch),
                    _ => None,
                });
                record_pass(std::iter::once(first).chain(more), encoder);
            }
            Work::Clear(buffer) => encoder.clear_buffer(buffer, 0, None),
            Work::Copy(from, to, bytes) => {
                encoder.copy_buffer_to_buffer(from, 0, to, 0, *bytes);
            }
            Work::Backward(bound) => bound.record(encoder),
        }
    }
}

/// Records dispatches as one pass.
pub(super) fn record_pass<'a>(
    dispatches: impl Iterator<Item = &'a Dispatch>,
    encoder: &mut wgpu::CommandEncoder,
) {
    let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
        label: Some("dla train"),
        timestamp_writes: None,
    });
    dispatches.for_each(|dispatch| dispatch.record(&mut pass));
}
