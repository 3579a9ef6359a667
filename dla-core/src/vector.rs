//! The few vector operations that the formulas are made of.

use crate::real::Real;

/// ⟨a, b⟩.
pub fn dot<R: Real>(a: &[R], b: &[R]) -> R {
    a.iter().zip(b).map(|(&a, &b)| a * b).sum()
}

/// ‖x‖².
pub fn square_norm<R: Real>(x: &[R]) -> R {
    dot(x, x)
}

/// Σ|x|; NaN where an x is.
pub fn magnitude<R: Real>(x: &[R]) -> R {
    x.iter().map(|x| x.abs()).sum()
}

/// `out += scale · x`.
pub fn add_scaled<R: Real>(out: &mut [R], scale: R, x: &[R]) {
    for (out, &x) in out.iter_mut().zip(x) {
        *out += scale * x;
    }
}

/// `out += scale · a bᵀ`, `out` `[a.len(), b.len()]`.
pub fn add_outer<R: Real>(out: &mut [R], scale: R, a: &[R], b: &[R]) {
    for (row, &a) in out.chunks_exact_mut(b.len()).zip(a) {
        add_scaled(row, scale * a, b);
    }
}
