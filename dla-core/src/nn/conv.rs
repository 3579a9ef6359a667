//! A causal convolution of each channel by itself, its last inputs carried from call to call.

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
pub struct CausalConv {
    channels: usize,
    width: usize,
    weight: Vec<f32>,
    bias: Option<Vec<f32>>,
}

impl CausalConv {
    /// A convolution by `weight` `[channels, width]` (a checkpoint's `[channels, 1, width]`), the
    /// newest input's weight last, and `bias` `[channels]`.
    pub fn new(channels: usize, weight: Vec<f32>, bias: Option<Vec<f32>>) -> Self {
        let width = weight.len() / channels;
        Self {
            channels,
            width,
            weight,
            bias,
        }
    }

    /// The state before the first input.
    pub fn state(&self) -> Vec<f32> {
        vec![0.0; self.width.saturating_sub(1) * self.channels]
    }

    /// `x` `[tokens, channels]` to the same shape; `state` goes on to after them.
    pub fn forward(&self, x: &[f32], state: &mut Vec<f32>) -> Vec<f32> {
        let c = self.channels;
        let kept = state.len();
        state.extend_from_slice(x);
        let mut y = self.start(x.len() / c);
        for (t, y) in y.chunks_exact_mut(c).enumerate() {
            for j in 0..self.width {
                let input = &state[(t + j) * c..][..c];
                for ch in 0..c {
                    y[ch] += self.weight[ch * self.width + j] * input[ch];
                }
            }
        }
        state.drain(..state.len() - kept);
        y
    }

    /// The bias, or zeros, for each token.
    fn start(&self, tokens: usize) -> Vec<f32> {
        match &self.bias {
            Some(bias) => bias.repeat(tokens),
            None => vec![0.0; tokens * self.channels],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::CausalConv;

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
