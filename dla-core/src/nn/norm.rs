//! Root-mean-square norms, and the norm of L2.

use super::activation::silu;

/// `w · x / sqrt(mean(x²) + ε)`, the mean over groups of consecutive values.
///
/// ```
/// let norm = dla_core::nn::RmsNorm::new(vec![1.0, 10.0], 0.0);
/// assert_eq!(norm.forward(&[3.0, 3.0]), [1.0, 10.0]);
/// ```
#[derive(Clone, Debug)]
pub struct RmsNorm {
    weight: Vec<f32>,
    group: usize,
    epsilon: f32,
}

impl RmsNorm {
    /// A norm over all of `weight.len()` values.
    pub fn new(weight: Vec<f32>, epsilon: f32) -> Self {
        let group = weight.len();
        Self {
            weight,
            group,
            epsilon,
        }
    }

    /// The same with means over `groups` equal parts.
    #[must_use]
    pub fn grouped(mut self, groups: usize) -> Self {
        self.group = self.weight.len() / groups;
        self
    }

    /// `x` `[rows, width]` to the same shape.
    pub fn forward(&self, x: &[f32]) -> Vec<f32> {
        let mut y = x.to_vec();
        self.normalise(&mut y);
        y
    }

    /// The gate first, as in Mamba-2: the norm of `x · SiLU(gate)`, both `[rows, width]`.
    pub fn gate_first(&self, x: &[f32], gate: &[f32]) -> Vec<f32> {
        let gated = x.iter().zip(gate).map(|(&x, &gate)| x * silu(gate));
        let mut y: Vec<f32> = gated.collect();
        self.normalise(&mut y);
        y
    }

    /// The norm first, as in Gated DeltaNet: `norm(x) · SiLU(gate)`, both `[rows, width]`.
    pub fn norm_first(&self, x: &[f32], gate: &[f32]) -> Vec<f32> {
        let mut y = self.forward(x);
        y.iter_mut()
            .zip(gate)
            .for_each(|(y, &gate)| *y *= silu(gate));
        y
    }

    fn normalise(&self, x: &mut [f32]) {
        for row in x.chunks_exact_mut(self.weight.len()) {
            let groups = row.chunks_exact_mut(self.group);
            for (x, weight) in groups.zip(self.weight.chunks_exact(self.group)) {
                let mean = square_sum(x) / self.group as f32;
                let scale = 1.0 / (mean + self.epsilon).sqrt();
                x.iter_mut().zip(weight).for_each(|(x, w)| *x *= scale * w);
            }
        }
    }
}

/// Scales each row of `width` values to `scale · x / sqrt(Σx² + ε)`.
pub fn l2(x: &mut [f32], width: usize, epsilon: f32, scale: f32) {
    for row in x.chunks_exact_mut(width) {
        let factor = scale / (square_sum(row) + epsilon).sqrt();
        row.iter_mut().for_each(|x| *x *= factor);
    }
}

fn square_sum(x: &[f32]) -> f32 {
    x.iter().map(|x| x * x).sum()
}

#[cfg(test)]
mod tests {
    use super::{RmsNorm, l2};

    #[test]
    fn groups_are_scaled_alone() {
        let norm = RmsNorm::new(vec![1.0; 4], 0.0).grouped(2);
        assert_eq!(norm.forward(&[2.0, 2.0, -5.0, 5.0]), [1.0, 1.0, -1.0, 1.0]);
    }

    #[test]
    fn gates_come_before_or_after() {
        let norm = RmsNorm::new(vec![1.0; 2], 0.0);
        let (x, gate) = ([1.0, 1.0], [20.0, 20.0]);
        assert_eq!(norm.gate_first(&x, &gate), [1.0, 1.0]);
        assert_eq!(norm.norm_first(&x, &gate), [20.0, 20.0]);
    }

    #[test]
    fn l2_of_zeros_is_zeros() {
        let mut x = [0.0, 0.0, 3.0, 4.0];
        l2(&mut x, 2, 1e-6, 0.5);
        assert_eq!(x[..2], [0.0, 0.0]);
        assert!((x[2] - 0.3).abs() < 1e-6 && (x[3] - 0.4).abs() < 1e-6);
    }
}
