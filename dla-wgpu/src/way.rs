//! Copies between what is at work and what is kept of it.

/// Which way a copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// From what is at work to what is kept.
    Keep,
    /// Back.
    Restore,
}

impl Way {
    /// Records a copy of `size` bytes between a place at work and one that is kept, both a buffer and an offset.
    pub(crate) fn copy(
        self,
        encoder: &mut wgpu::CommandEncoder,
        work: (&wgpu::Buffer, u64),
        kept: (&wgpu::Buffer, u64),
        size: u64,
    ) {
        let (from, to) = match self {
            Self::Keep => (work, kept),
            Self::Restore => (kept, work),
        };
        encoder.copy_buffer_to_buffer(from.0, from.1, to.0, to.1, size);
    }
}
