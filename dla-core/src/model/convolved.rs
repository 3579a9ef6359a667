//! A projection with a short convolution behind it: how q, k and v come about in fla's mixers.

use super::tensors::ConvolvedTensors;
use crate::nn::activation::silu;
use crate::nn::{CausalConv, Linear};
use crate::parallel::{EXPONENTIAL, map_values};

/// A projection, a convolution, SiLU.
#[derive(Clone, Debug)]
pub(super) struct ConvolvedProjection {
    projection: Linear,
    conv: CausalConv,
}

impl ConvolvedProjection {
    /// The projection to `rows` channels of these tensors.
    pub(super) fn new(hidden: usize, rows: usize, tensors: ConvolvedTensors<Vec<f32>>) -> Self {
        Self {
            projection: Linear::new(hidden, tensors.projection, None),
            conv: CausalConv::new(rows, tensors.conv, None),
        }
    }

    /// `x` `[tokens, hidden]` to `[tokens, rows]`; `state` is the convolution's.
    pub(super) fn forward(&self, x: &[f32], state: &mut Vec<f32>) -> Vec<f32> {
        let mut y = self.conv.forward(&self.projection.forward(x), state);
        map_values(&mut y, EXPONENTIAL, |_, y| silu(y));
        y
    }
}
