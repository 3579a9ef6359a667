//! `y = W x + b`.

use super::embedding::Embedding;
use crate::parallel::for_rows;
use crate::real::Real;
use crate::vector::add_scaled;

/// Outputs that one piece of work computes where there is a single row.
const BLOCK: usize = 64;
/// Rows that are multiplied with a row of weights while it is in the processor's nearest cache.
const GROUP: usize = 8;

/// A linear map with an optional bias.
///
/// ```
/// let linear = dla_core::nn::Linear::new(2, vec![1.0, 2.0, 3.0, 4.0], None);
/// assert_eq!(linear.forward(&[1.0, 10.0]), [21.0, 43.0]);
/// ```
#[derive(Clone, Debug)]
pub struct Linear<R = f32> {
    inputs: usize,
    weight: Vec<R>,
    bias: Option<Vec<R>>,
}

/// The gradients of a linear map, in the shapes of what they belong to.
#[derive(Clone, Debug)]
pub struct LinearGradients<R> {
    /// By `x`, `[rows, inputs]`.
    pub x: Vec<R>,
    /// By `weight`, `[outputs, inputs]`.
    pub weight: Vec<R>,
    /// By `bias`, `[outputs]`, where there is one.
    pub bias: Option<Vec<R>>,
}

impl<R: Real> Linear<R> {
    /// A map of `inputs` values by `weight` `[outputs, inputs]` and `bias` `[outputs]`.
    pub fn new(inputs: usize, weight: Vec<R>, bias: Option<Vec<R>>) -> Self {
        Self {
            inputs,
            weight,
            bias,
        }
    }

    /// `x` `[rows, inputs]` to `[rows, outputs]`.
    pub fn forward(&self, x: &[R]) -> Vec<R> {
        let mut y = product(x, &self.weight, self.inputs);
        if let Some(bias) = &self.bias {
            for row in y.chunks_exact_mut(bias.len()) {
                row.iter_mut().zip(bias).for_each(|(y, &bias)| *y += bias);
            }
        }
        y
    }

    /// The gradients of Σ y·dy, `d_y` `[rows, outputs]`: dx = dy W, dW = dyᵀ x, db = Σ dy.
    pub fn backward(&self, x: &[R], d_y: &[R]) -> LinearGradients<R> {
        let outputs = self.weight.len() / self.inputs;
        let mut d_x = vec![R::ZERO; x.len()];
        let cost = d_y.len() * self.inputs;
        for_rows(&mut d_x, self.inputs, cost, |row, d_x| {
            let weights = self.weight.chunks_exact(self.inputs);
            for (weights, &d_y) in weights.zip(&d_y[row * outputs..]) {
                add_scaled(d_x, d_y, weights);
            }
        });
        let mut d_weight = vec![R::ZERO; self.weight.len()];
        for_rows(&mut d_weight, self.inputs, cost, |output, d_weight| {
            for (row, x) in x.chunks_exact(self.inputs).enumerate() {
                add_scaled(d_weight, d_y[row * outputs + output], x);
            }
        });
        LinearGradients {
            x: d_x,
            weight: d_weight,
            bias: self.bias.as_ref().map(|_| column_sums(d_y, outputs)),
        }
    }
}

/// The logits of a tied head: `x` `[rows, width]` against every row of the embedding, `[rows, vocabulary]`.
pub fn tied<R: Real>(x: &[R], embedding: &Embedding<R>) -> Vec<R> {
    product(x, embedding.weight(), embedding.width())
}

/// The sum over all rows of `x` `[rows, width]`, `[width]`.
fn column_sums<R: Real>(x: &[R], width: usize) -> Vec<R> {
    let mut sums = vec![R::ZERO; width];
    for row in x.chunks_exact(width) {
        add_scaled(&mut sums, R::ONE, row);
    }
    sums
}

/// `x Wᵀ`, `x` `[rows, inputs]`, `weight` `[outputs, inputs]`.
///
/// Every number is one [`dot`] of a row and a row of weights, however the work is cut.
fn product<R: Real>(x: &[R], weight: &[R], inputs: usize) -> Vec<R> {
    let (rows, outputs) = (x.len() / inputs, weight.len() / inputs);
    let mut y = vec![R::ZERO; rows * outputs];
    let cost = outputs * inputs;
    if rows == 1 {
        for_rows(&mut y, BLOCK, cost, |index, y| {
            let weights = weight[index * BLOCK * inputs..].chunks_exact(inputs);
            for (y, weights) in y.iter_mut().zip(weights) {
                *y = dot(x, weights);
            }
        });
    } else {
        for_rows(&mut y, GROUP * outputs, rows * cost, |index, y| {
            let x = &x[index * GROUP * inputs..];
            for (output, weights) in weight.chunks_exact(inputs).enumerate() {
                let rows = y.chunks_exact_mut(outputs).zip(x.chunks_exact(inputs));
                for (y, x) in rows {
                    y[output] = dot(x, weights);
                }
            }
        });
    }
    y
}

/// ⟨a, b⟩ in eight partial sums, which the compiler can keep in one register.
fn dot<R: Real>(a: &[R], b: &[R]) -> R {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let mut sums = [R::ZERO; 8];
    for (a, b) in a.iter().zip(b) {
        for i in 0..8 {
            sums[i] += a[i] * b[i];
        }
    }
    let rest: R = a_rest.iter().zip(b_rest).map(|(&a, &b)| a * b).sum();
    sums.iter().copied().sum::<R>() + rest
}

#[cfg(test)]
mod tests {
    use super::Linear;
    use crate::nn::check::{assert_gradient, numbers};

    #[test]
    fn gradients_are_finite_differences() {
        let (rows, inputs, outputs) = (3, 5, 4);
        let (x, weight) = (numbers(rows * inputs, 1), numbers(outputs * inputs, 2));
        let (bias, d_y) = (numbers(outputs, 3), numbers(rows * outputs, 4));
        let loss = |x: &[f64], weight: &[f64], bias: &[f64]| {
            let linear = Linear::new(inputs, weight.to_vec(), Some(bias.to_vec()));
            crate::vector::dot(&linear.forward(x), &d_y)
        };
        let d = Linear::new(inputs, weight.clone(), Some(bias.clone())).backward(&x, &d_y);
        assert_gradient("x", &x, &d.x, |x| loss(x, &weight, &bias));
        assert_gradient("weight", &weight, &d.weight, |w| loss(&x, w, &bias));
        assert_gradient("bias", &bias, &d.bias.unwrap_or_default(), |b| {
            loss(&x, &weight, b)
        });
    }

    #[test]
    fn one_row_equals_many() {
        let (inputs, outputs) = (19, 150);
        let number = |i: usize| (i * 7 % 13) as f32 - 6.0;
        let weight: Vec<f32> = (0..inputs * outputs).map(number).collect();
        let bias: Vec<f32> = (0..outputs).map(number).collect();
        let x: Vec<f32> = (0..7 * inputs).map(number).collect();
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
