//! What a block's work is prepared from.

use dla_wgpu::Gpu;

use super::super::parameters::Parameters;
use super::super::shared::Shared;

/// What the work of every block is prepared from.
#[derive(Clone, Copy)]
pub(in crate::device) struct Call<'a> {
    pub(in crate::device) gpu: &'a Gpu,
    pub(in crate::device) parameters: &'a Parameters,
    pub(in crate::device) shared: &'a Shared,
}

/// What a mixer reads, which its block keeps from a forward pass.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    /// `[rows, stride]`.
    pub(super) projected: wgpu::Buffer,
    /// The convolution's output, `[rows, channels]`.
    pub(super) mixed: wgpu::Buffer,
}
