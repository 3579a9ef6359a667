//! `y = W x + b`.

use super::embedding::Embedding;
use crate::parallel::for_rows;

/// Outputs that one piece of work computes where there is a single row.
const BLOCK: usize = 64;

/// A linear map with an optional bias.
///
/// ```
/// let linear = dla_core::nn::Linear::new(2, vec![1.0, 2.0, 3.0, 4.0], None);
/// assert_eq!(linear.forward(&[1.0, 10.0]), [21.0, 43.0]);
/// ```
#[derive(Clone, Debug)]
pub struct Linear {
    inputs: usize,
    weight: Vec<f32>,
    bias: Option<Vec<f32>>,
}

impl Linear {
    /// A map of `inputs` values by `weight` `[outputs, inputs]` and `bias` `[outputs]`.
    pub fn new(inputs: usize, weight: Vec<f32>, bias: Option<Vec<f32>>) -> Self {
        Self {
            inputs,
            weight,
            bias,
        }
    }

    /// `x` `[rows, inputs]` to `[rows, outputs]`.
    pub fn forward(&self, x: &[f32]) -> Vec<f32> {
        let mut y = product(x, &self.weight, self.inputs);
        if let Some(bias) = &self.bias {
            for row in y.chunks_exact_mut(bias.len()) {
                row.iter_mut().zip(bias).for_each(|(y, bias)| *y += bias);
            }
        }
        y
    }
}

/// The logits of a tied head: `x` `[rows, width]` against every row of the embedding, `[rows, vocabulary]`.
pub fn tied(x: &[f32], embedding: &Embedding) -> Vec<f32> {
    product(x, embedding.weight(), embedding.width())
}

/// `x Wᵀ`, `x` `[rows, inputs]`, `weight` `[outputs, inputs]`.
fn product(x: &[f32], weight: &[f32], inputs: usize) -> Vec<f32> {
    let (rows, outputs) = (x.len() / inputs, weight.len() / inputs);
    let mut y = vec![0.0; rows * outputs];
    let block = if rows == 1 { BLOCK } else { outputs };
    for_rows(&mut y, block, |index, out| {
        let (row, first) = match rows {
            1 => (x, index * block),
            _ => (&x[index * inputs..][..inputs], 0),
        };
        let weights = weight[first * inputs..].chunks_exact(inputs);
        for (y, weights) in out.iter_mut().zip(weights) {
            *y = dot(row, weights);
        }
    });
    y
}

/// ⟨a, b⟩ in eight partial sums, which the compiler can keep in one register.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let mut sums = [0.0f32; 8];
    for (a, b) in a.iter().zip(b) {
        for i in 0..8 {
            sums[i] += a[i] * b[i];
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}

#[cfg(test)]
mod tests {
    use super::Linear;

    #[test]
    fn one_row_equals_many() {
        let (inputs, outputs) = (19, 150);
        let number = |i: usize| (i * 7 % 13) as f32 - 6.0;
        let weight: Vec<f32> = (0..inputs * outputs).map(number).collect();
        let bias: Vec<f32> = (0..outputs).map(number).collect();
        let x: Vec<f32> = (0..3 * inputs).map(number).collect();
        let linear = Linear::new(inputs, weight.clone(), Some(bias.clone()));
        let many = linear.forward(&x);
        for (row, many) in x.chunks(inputs).zip(many.chunks(outputs)) {
            assert_eq!(linear.forward(row), many);
            let last = outputs - 1;
            let exact: f32 = (0..inputs)
                .map(|i| row[i] * weight[last * inputs + i])
                .sum();
            assert_eq!(many[last], exact + bias[last]);
        }
    }
}
