//! A causal convolution of each channel by itself, its last inputs carried from call to call.

use crate::parallel::for_rows;
use crate::real::Real;

/// A depthwise causal convolution.
///
/// Its state is the last `width − 1` inputs, `[width − 1, channels]`, oldest first, zeros at a
/// sequence's beginning.
///
/// ```
/// use dla_core::nn::CausalConv;
/// let conv = CausalConv::new(1, vec![10.0, 1.0], None);
/// let mut state = conv.state();
/// assert_eq!(conv.forward(&[1.0, 2.0], &mut state), [1.0, 12.0]);
/// assert_eq!(conv.forward(&[3.0], &mut state), [23.0]);
/// ```
#[derive(Clone, Debug)]
pub struct CausalConv<R = f32> {
    channels: usize,
    width: usize,
    weight: Vec<R>,
    /// The same, `[width, channels]`: what all channels of a token do together lies together.
    taps: Vec<R>,
    bias: Option<Vec<R>>,
}

/// The gradients of a convolution, in the shapes of what they belong to.
#[derive(Clone, Debug)]
pub struct ConvGradients<R> {
    /// By `x`, `[tokens, channels]`.
    pub x: Vec<R>,
    /// By `weight`, `[channels, width]`.
    pub weight: Vec<R>,
    /// By `bias`, `[channels]`, where there is one.
    pub bias: Option<Vec<R>>,
}

impl<R: Real> CausalConv<R> {
    /// A convolution by `weight` `[channels, width]` (a checkpoint's `[channels, 1, width]`), the
    /// newest input's weight last, and `bias` `[channels]`.
    pub fn new(channels: usize, weight: Vec<R>, bias: Option<Vec<R>>) -> Self {
        let width = weight.len() / channels;
        let tap = |i: usize| weight[i % channels * width + i / channels];
        Self {
            channels,
            width,
            taps: (0..weight.len()).map(tap).collect(),
            weight,
            bias,
        }
    }

    /// The state before the first input.
    pub fn state(&self) -> Vec<R> {
        vec![R::ZERO; self.width.saturating_sub(1) * self.channels]
    }

    /// `x` `[tokens, channels]` to the same shape; `state` goes on to after them.
    pub fn forward(&self, x: &[R], state: &mut Vec<R>) -> Vec<R> {
        let c = self.channels;
        let kept = state.len();
        state.extend_from_slice(x);
        let mut y = self.start(x.len() / c);
        let (inputs, cost) = (&state[..], x.len().saturating_mul(self.width));
        for_rows(&mut y, c, cost, |t, y| {
            for (j, tap) in self.taps.chunks_exact(c).enumerate() {
                let input = &inputs[(t + j) * c..][..c];
                for ((y, &tap), &input) in y.iter_mut().zip(tap).zip(input) {
                    *y += tap * input;
                }
            }
        });
        state.drain(..state.len() - kept);
        y
    }

    /// The gradients of Σ y·dy for a whole sequence `x` `[tokens, channels]`, before which there
    /// are zeros; `d_y` has the shape of `x`.
    pub fn backward(&self, x: &[R], d_y: &[R]) -> ConvGradients<R> {
        let c = self.channels;
        let mut d = ConvGradients {
            x: vec![R::ZERO; x.len()],
            weight: vec![R::ZERO; self.weight.len()],
            bias: self.bias.as_ref().map(|_| vec![R::ZERO; c]),
        };
        for (t, d_y) in d_y.chunks_exact(c).enumerate() {
            for j in 0..self.width {
                let Some(source) = (t + j + 1).checked_sub(self.width) else {
                    continue; // the zeros before the sequence
                };
                for ch in 0..c {
                    let (at, tap) = (source * c + ch, ch * self.width + j);
                    d.x[at] += self.weight[tap] * d_y[ch];
                    d.weight[tap] += x[at] * d_y[ch];
                }
            }
            for (bias, &d_y) in d.bias.iter_mut().flatten().zip(d_y) {
                *bias += d_y;
            }
        }
        d
    }

    /// The bias, or zeros, for each token.
    fn start(&self, tokens: usize) -> Vec<R> {
        match &self.bias {
            Some(bias) => bias.repeat(tokens),
            None => vec![R::ZERO; tokens * self.channels],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::CausalConv;
    use crate::nn::check::{assert_gradient, numbers};

    #[test]
    fn gradients_are_finite_differences() {
        for (tokens, width) in [(7, 4), (2, 4), (5, 1)] {
            let (x, weight, bias) = (numbers(tokens * 3, 1), numbers(3 * width, 2), numbers(3, 3));
            let d_y = numbers(tokens * 3, 4);
            let loss = |x: &[f64], weight: &[f64], bias: &[f64]| {
                let conv = CausalConv::new(3, weight.to_vec(), Some(bias.to_vec()));
                let y = conv.forward(x, &mut conv.state());
                crate::vector::dot(&y, &d_y)
            };
            let d = CausalConv::new(3, weight.clone(), Some(bias.clone())).backward(&x, &d_y);
            assert_gradient("x", &x, &d.x, |x| loss(x, &weight, &bias));
            assert_gradient("weight", &weight, &d.weight, |w| loss(&x, w, &bias));
            assert_gradient("bias", &bias, &d.bias.unwrap_or_default(), |b| {
                loss(&x, &weight, b)
            });
        }
    }

    #[test]
    fn any_split_gives_the_same() {
        for width in 1..=4 {
            let weight: Vec<f32> = (0..3 * width).map(|i| i as f32 - 2.0).collect();
            let conv = CausalConv::new(3, weight, Some(vec![0.5, 0.0, -1.0]));
            let x: Vec<f32> = (0..7 * 3).map(|i| (i * 5 % 11) as f32).collect();
            let mut whole_state = conv.state();
            let whole = conv.forward(&x, &mut whole_state);
            for split in 0..=7 {
                let mut state = conv.state();
                let mut y = conv.forward(&x[..split * 3], &mut state);
                y.extend(conv.forward(&x[split * 3..], &mut state));
                assert_eq!(
                    (y, state),
                    (whole.clone(), whole_state.clone()),
                    "width {width}, split {split}"
                );
            }
        }
    }
}
