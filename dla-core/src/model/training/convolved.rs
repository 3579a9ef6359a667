//! Convolutions and SiLU over a batch of sequences, each from zeros, and the projection before them.

use crate::model::tensors::ConvolvedTensors;
use crate::nn::activation::{silu, silu_slope};
use crate::nn::conv::ConvGradients;
use crate::nn::{CausalConv, Linear};
use crate::vector::add;

/// SiLU of a causal convolution.
#[derive(Clone, Debug)]
pub(super) struct SiluConv(pub(super) CausalConv<f64>);

/// What it leaves for the backward pass.
#[derive(Clone, Debug)]
pub(super) struct SiluConvTape {
    /// What the convolution took, `[sequences, tokens, channels]`.
    x: Vec<f64>,
    /// What it gave, before SiLU.
    convolved: Vec<f64>,
}

impl SiluConv {
    /// `x` `[sequences, tokens, channels]` to the same shape.
    pub(super) fn forward(&self, x: Vec<f64>, sequences: usize) -> (Vec<f64>, SiluConvTape) {
        let each = (x.len() / sequences).max(1);
        let sequence = |x| self.0.forward(x, &mut self.0.state());
        let convolved: Vec<f64> = x.chunks_exact(each).flat_map(sequence).collect();
        let y = convolved.iter().map(|&x| silu(x)).collect();
        (y, SiluConvTape { x, convolved })
    }

    /// The gradients of Σ y·dy.
    pub(super) fn backward(
        &self,
        tape: &SiluConvTape,
        d_y: &[f64],
        sequences: usize,
    ) -> ConvGradients<f64> {
        let each = (tape.x.len() / sequences).max(1);
        let slopes = d_y.iter().zip(&tape.convolved);
        let d: Vec<f64> = slopes.map(|(d, &x)| d * silu_slope(x)).collect();
        let mut all = self.0.backward(&[], &[]);
        for (x, d) in tape.x.chunks_exact(each).zip(d.chunks_exact(each)) {
            let one = self.0.backward(x, d);
            all.x.extend(one.x);
            add(&mut all.weight, &one.weight);
            if let (Some(all), Some(one)) = (&mut all.bias, &one.bias) {
                add(all, one);
            }
        }
        all
    }
}

/// A projection, a convolution, SiLU.
#[derive(Clone, Debug)]
pub(super) struct ConvolvedProjection {
    projection: Linear<f64>,
    conv: SiluConv,
}

impl ConvolvedProjection {
    /// The projection to `rows` channels of these tensors.
    pub(super) fn new(hidden: usize, rows: usize, tensors: ConvolvedTensors<Vec<f64>>) -> Self {
        Self {
            projection: Linear::new(hidden, tensors.projection, None),
            conv: SiluConv(CausalConv::new(rows, tensors.conv, None)),
        }
    }

    /// `x` `[sequences, tokens, hidden]` to `[sequences, tokens, channels]`.
    pub(super) fn forward(&self, x: &[f64], sequences: usize) -> (Vec<f64>, SiluConvTape) {
        self.conv.forward(self.projection.forward(x), sequences)
    }

    /// Adds to `d_x` of the same input `x`; gives the tensors' gradients.
    pub(super) fn backward(
        &self,
        tape: &SiluConvTape,
        (x, d_x): (&[f64], &mut [f64]),
        d_y: &[f64],
        sequences: usize,
    ) -> ConvolvedTensors<Vec<f64>> {
        let conv = self.conv.backward(tape, d_y, sequences);
        let projection = self.projection.backward(x, &conv.x);
        add(d_x, &projection.x);
        ConvolvedTensors {
            projection: projection.weight,
            conv: conv.weight,
        }
    }
}
