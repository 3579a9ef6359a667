//! Root-mean-square norms, and the norm of L2, right for values of any magnitude.

use super::activation::{silu, silu_slope};
use crate::parallel::{EXPONENTIAL, for_rows};
use crate::real::Real;
use crate::vector::{dot, square_norm};

/// `w · x / sqrt(mean(x²) + ε)`, the mean over groups of consecutive values.
///
/// ```
/// let norm = dla_core::nn::RmsNorm::new(vec![1.0, 10.0], 0.0);
/// assert_eq!(norm.forward(&[3.0, 3.0]), [1.0, 10.0]);
/// ```
#[derive(Clone, Debug)]
pub struct RmsNorm<R = f32> {
    weight: Vec<R>,
    group: usize,
    epsilon: R,
}

/// The gradients of a norm, in the shapes of what they belong to.
#[derive(Clone, Debug)]
pub struct NormGradients<R> {
    /// By `x`, `[rows, width]`.
    pub x: Vec<R>,
    /// By `weight`, `[width]`.
    pub weight: Vec<R>,
}

/// The gradients of a norm with a gate.
#[derive(Clone, Debug)]
pub struct GatedNormGradients<R> {
    /// By `x`, `[rows, width]`.
    pub x: Vec<R>,
    /// By `gate`, `[rows, width]`.
    pub gate: Vec<R>,
    /// By `weight`, `[width]`.
    pub weight: Vec<R>,
}

impl<R: Real> RmsNorm<R> {
    /// A norm over all of `weight.len()` values.
    pub fn new(weight: Vec<R>, epsilon: R) -> Self {
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
    pub fn forward(&self, x: &[R]) -> Vec<R> {
        let mut y = x.to_vec();
        self.rows(&mut y, 2, |_, y| self.normalise_row(y));
        y
    }

    /// The gate first, as in Mamba-2: the norm of `x · SiLU(gate)`, both `[rows, width]`.
    pub fn gate_first(&self, x: &[R], gate: &[R]) -> Vec<R> {
        let (mut y, width) = (x.to_vec(), self.weight.len());
        self.rows(&mut y, EXPONENTIAL, |row, y| {
            let gate = &gate[row * width..];
            y.iter_mut()
                .zip(gate)
                .for_each(|(y, &gate)| *y *= silu(gate));
            self.normalise_row(y);
        });
        y
    }

    /// The norm first, as in Gated DeltaNet: `norm(x) · SiLU(gate)`, both `[rows, width]`.
    pub fn norm_first(&self, x: &[R], gate: &[R]) -> Vec<R> {
        let (mut y, width) = (x.to_vec(), self.weight.len());
        self.rows(&mut y, EXPONENTIAL, |row, y| {
            self.normalise_row(y);
            let gate = &gate[row * width..];
            y.iter_mut()
                .zip(gate)
                .for_each(|(y, &gate)| *y *= silu(gate));
        });
        y
    }

    /// The gradients of Σ y·dy, y = [`RmsNorm::forward`] of `x`; `d_y` `[rows, width]`.
    ///
    /// With r = 1 / sqrt(mean(x²) + ε) over a group of N: dx = r · (w dy − x r² · Σ(w dy x) / N),
    /// dw = Σ dy · x r over the rows.
    pub fn backward(&self, x: &[R], d_y: &[R]) -> NormGradients<R> {
        let (width, group) = (self.weight.len(), self.group);
        let mut d = NormGradients {
            x: vec![R::ZERO; x.len()],
            weight: vec![R::ZERO; width],
        };
        for first in (0..x.len()).step_by(group) {
            let (x, d_y) = (&x[first..first + group], &d_y[first..first + group]);
            let column = first % width;
            let weight = &self.weight[column..column + group];
            let Root { unit, value } = self.root(x);
            let scale = R::ONE / value;
            let x: Vec<R> = x.iter().map(|&x| x * unit).collect();
            let weighted: Vec<R> = d_y.iter().zip(weight).map(|(&d, &w)| d * w).collect();
            let pull = dot(&weighted, &x) * scale * scale / R::from_f64(group as f64);
            for i in 0..group {
                d.x[first + i] = unit * (scale * (weighted[i] - x[i] * pull));
                d.weight[column + i] += d_y[i] * x[i] * scale;
            }
        }
        d
    }

    /// The gradients of Σ y·dy, y = [`RmsNorm::gate_first`]; all `[rows, width]`.
    pub fn gate_first_backward(&self, x: &[R], gate: &[R], d_y: &[R]) -> GatedNormGradients<R> {
        let gated: Vec<R> = x
            .iter()
            .zip(gate)
            .map(|(&x, &gate)| x * silu(gate))
            .collect();
        let mut d = self.backward(&gated, d_y);
        let mut d_gate = vec![R::ZERO; gate.len()];
        for i in 0..gate.len() {
            d_gate[i] = d.x[i] * x[i] * silu_slope(gate[i]);
            d.x[i] *= silu(gate[i]);
        }
        GatedNormGradients {
            x: d.x,
            gate: d_gate,
            weight: d.weight,
        }
    }

    /// The gradients of Σ y·dy, y = [`RmsNorm::norm_first`]; all `[rows, width]`.
    pub fn norm_first_backward(&self, x: &[R], gate: &[R], d_y: &[R]) -> GatedNormGradients<R> {
        let mut d_gate = self.forward(x);
        let mut d_normed = d_y.to_vec();
        for i in 0..gate.len() {
            d_gate[i] *= d_y[i] * silu_slope(gate[i]);
            d_normed[i] *= silu(gate[i]);
        }
        let d = self.backward(x, &d_normed);
        GatedNormGradients {
            x: d.x,
            gate: d_gate,
            weight: d.weight,
        }
    }

    /// Calls `change(row, values)` for every row, each value costing about `cost` multiply-adds.
    fn rows(&self, y: &mut [R], cost: usize, change: impl Fn(usize, &mut [R]) + Sync) {
        let cost = y.len().saturating_mul(cost);
        for_rows(y, self.weight.len(), cost, change);
    }

    fn normalise_row(&self, row: &mut [R]) {
        let groups = row.chunks_exact_mut(self.group);
        for (x, weight) in groups.zip(self.weight.chunks_exact(self.group)) {
            let Root { unit, value } = self.root(x);
            let scale = R::ONE / value;
            x.iter_mut()
                .zip(weight)
                .for_each(|(x, &w)| *x = *x * unit * (scale * w));
        }
    }

    /// sqrt(mean(x²) + ε) of one group.
    fn root(&self, x: &[R]) -> Root<R> {
        Root::new(x, R::from_f64(self.group as f64), self.epsilon)
    }
}

/// The root of a mean of squares plus ε, `value / unit`.
///
/// The unit is 1 where squares are in range. Otherwise it is a power of two by which values are multiplied before their
/// squares are taken: those of large values overflow, and those of small ones vanish where ε does not outweigh them.
#[derive(Clone, Copy, Debug)]
struct Root<R> {
    unit: R,
    /// NaN where a value is not finite, which 1 / ∞ would hide.
    value: R,
}

impl<R: Real> Root<R> {
    /// sqrt(Σx² / count + ε).
    fn new(x: &[R], count: R, epsilon: R) -> Self {
        let mean = square_norm(x) / count + epsilon;
        let unit = match mean.is_finite() {
            true if mean >= R::LEAST_SQUARE => {
                return Self {
                    unit: R::ONE,
                    value: mean.sqrt(),
                };
            }
            true => R::GROW,
            false => R::SHRINK,
        };
        let square: R = x.iter().map(|&x| x * unit).map(|x| x * x).sum();
        let mean = square / count + epsilon * unit * unit;
        let value = match mean.is_finite() {
            true => mean.sqrt(),
            false => R::NAN,
        };
        Self { unit, value }
    }
}

/// Scales each row of `width` values to `scale · x / sqrt(Σx² + ε)`.
pub fn l2<R: Real>(x: &mut [R], width: usize, epsilon: R, scale: R) {
    for row in x.chunks_exact_mut(width) {
        let Root { unit, value } = Root::new(row, R::ONE, epsilon);
        let factor = scale / value;
        row.iter_mut().for_each(|x| *x = *x * unit * factor);
    }
}

/// The gradient of Σ y·dy by `x`, y = [`l2`] of the rows of `x`: with r = 1 / sqrt(Σx² + ε),
/// dx = scale · r · (dy − x r² · Σ dy x).
pub fn l2_backward<R: Real>(x: &[R], width: usize, epsilon: R, scale: R, d_y: &[R]) -> Vec<R> {
    let mut d_x = d_y.to_vec();
    for (d_x, x) in d_x.chunks_exact_mut(width).zip(x.chunks_exact(width)) {
        let Root { unit, value } = Root::new(x, R::ONE, epsilon);
        let x: Vec<R> = x.iter().map(|&x| x * unit).collect();
        let pull = dot(d_x, &x) / (value * value);
        let factor = scale / value;
        for (d_x, &x) in d_x.iter_mut().zip(&x) {
            *d_x = unit * (factor * (*d_x - x * pull));
        }
    }
    d_x
}

#[cfg(test)]
mod tests {
    use super::{RmsNorm, l2, l2_backward};
    use crate::nn::check::{assert_gradient, numbers};
    use crate::vector::dot;

    #[test]
    fn gradients_are_finite_differences() {
        let (rows, width) = (3, 6);
        let (x, weight) = (numbers(rows * width, 1), numbers(width, 2));
        let d_y = numbers(rows * width, 3);
        for groups in [1, 3] {
            let norm = |weight: &[f64]| RmsNorm::new(weight.to_vec(), 0.1).grouped(groups);
            let loss = |x: &[f64], weight: &[f64]| dot(&norm(weight).forward(x), &d_y);
            let d = norm(&weight).backward(&x, &d_y);
            assert_gradient("x", &x, &d.x, |x| loss(x, &weight));
            assert_gradient("weight", &weight, &d.weight, |w| loss(&x, w));
        }
        let loss = |x: &[f64]| {
            let mut y = x.to_vec();
            l2(&mut y, width, 0.1, 0.7);
            dot(&y, &d_y)
        };
        assert_gradient("l2", &x, &l2_backward(&x, width, 0.1, 0.7, &d_y), loss);
    }

    #[test]
    fn gated_gradients_are_finite_differences() {
        let (rows, width) = (3, 6);
        let (x, gate) = (numbers(rows * width, 1), numbers(rows * width, 4));
        let (weight, d_y) = (numbers(width, 2), numbers(rows * width, 3));
        let norm = |weight: &[f64]| RmsNorm::new(weight.to_vec(), 0.1).grouped(2);
        for gate_first in [true, false] {
            let loss = |x: &[f64], gate: &[f64], weight: &[f64]| {
                let y = match gate_first {
                    true => norm(weight).gate_first(x, gate),
                    false => norm(weight).norm_first(x, gate),
                };
                dot(&y, &d_y)
            };
            let d = match gate_first {
                true => norm(&weight).gate_first_backward(&x, &gate, &d_y),
                false => norm(&weight).norm_first_backward(&x, &gate, &d_y),
            };
            assert_gradient("x", &x, &d.x, |x| loss(x, &gate, &weight));
            assert_gradient("gate", &gate, &d.gate, |gate| loss(&x, gate, &weight));
            assert_gradient("weight", &weight, &d.weight, |w| loss(&x, &gate, w));
        }
    }

    /// Values whose squares overflow or vanish are normed as their multiples in range are.
    fn any_magnitude<R: crate::real::Real>(factors: &[f64], most: f64) {
        let (rows, width) = (2, 6);
        let cast = |x: &[f64]| x.iter().map(|&x| R::from_f64(x)).collect::<Vec<R>>();
        let (x, d_y) = (numbers(rows * width, 1), cast(&numbers(rows * width, 3)));
        let gate = cast(&numbers(rows * width, 4));
        let weight = cast(&numbers(width, 2));
        let norm = RmsNorm::new(weight, R::ZERO).grouped(2);
        let near = |what: &str, got: &[R], want: &[R], factor: f64| {
            for (got, want) in got.iter().zip(want) {
                let (got, want) = (got.to_f64() * factor, want.to_f64());
                assert!(
                    (got - want).abs() <= most * (1.0 + want.abs()),
                    "{what}, {factor:e}: {got}, not {want}"
                );
            }
        };
        let plain = cast(&x);
        for &factor in factors {
            let x = cast(&x.iter().map(|x| x * factor).collect::<Vec<_>>());
            near("y", &norm.forward(&x), &norm.forward(&plain), 1.0);
            near(
                "gate first",
                &norm.gate_first(&x, &gate),
                &norm.gate_first(&plain, &gate),
                1.0,
            );
            near(
                "norm first",
                &norm.norm_first(&x, &gate),
                &norm.norm_first(&plain, &gate),
                1.0,
            );
            let (got, want) = (norm.backward(&x, &d_y), norm.backward(&plain, &d_y));
            near("d x", &got.x, &want.x, factor);
            near("d weight", &got.weight, &want.weight, 1.0);
            let got = norm.gate_first_backward(&x, &gate, &d_y);
            let want = norm.gate_first_backward(&plain, &gate, &d_y);
            near("d gate", &got.gate, &want.gate, 1.0);
            let (mut got, mut want) = (x.clone(), plain.clone());
            l2(&mut got, width, R::ZERO, R::ONE);
            l2(&mut want, width, R::ZERO, R::ONE);
            near("l2", &got, &want, 1.0);
            let got = l2_backward(&x, width, R::ZERO, R::ONE, &d_y);
            let want = l2_backward(&plain, width, R::ZERO, R::ONE, &d_y);
            near("d l2", &got, &want, factor);
        }
    }

    #[test]
    fn kind_40_norms_are_right_at_every_magnitude() {
        any_magnitude::<f32>(&[1e-30, 1e-20, 1e19, 1e20, 1e30, 1e37], 1e-5);
        any_magnitude::<f64>(&[1e-300, 1e-200, 1e160, 1e300], 1e-13);
    }

    #[test]
    fn kind_40_a_row_that_is_not_finite_has_no_norm() {
        for bad in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
            let norm = RmsNorm::new(vec![1.0; 3], 1e-5);
            let y = norm.forward(&[1.0, bad, 2.0, 1.0, 1.0, 1.0]);
            assert!(y[..3].iter().all(|y| y.is_nan()), "{y:?}");
            assert!(y[3..].iter().all(|y| (y - 1.0).abs() < 1e-4), "{y:?}");
        }
    }

    #[test]
    fn groups_are_scaled_alone() {
        let norm = RmsNorm::new(vec![1.0; 4], 0.0).grouped(2);
        assert_eq!(norm.forward(&[2.0, 2.0, -5.0, 5.0]), [1.0, 1.0, -1.0, 1.0]);
    }

    #[test]
    fn gates_come_before_or_after() {
        let norm = RmsNorm::new(vec![1.0; 2], 0.0);
        let (x, gate) = ([1.0f32, 1.0], [20.0, 20.0]);
        assert_eq!(norm.gate_first(&x, &gate), [1.0, 1.0]);
        assert_eq!(norm.norm_first(&x, &gate), [20.0, 20.0]);
    }

    #[test]
    fn l2_of_zeros_is_zeros() {
        let mut x = [0.0f32, 0.0, 3.0, 4.0];
        l2(&mut x, 2, 1e-6, 0.5);
        assert_eq!(x[..2], [0.0, 0.0]);
        assert!((x[2] - 0.3).abs() < 1e-6 && (x[3] - 0.4).abs() < 1e-6);
    }
}
