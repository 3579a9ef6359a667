//! The few vector operations that the formulas are made of.

use crate::real::Real;

/// Columns of a matrix that are summed side by side, few enough for the registers of any processor.
const COLUMNS: usize = 16;

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

/// `out += x`.
pub fn add<R: Real>(out: &mut [R], x: &[R]) {
    add_scaled(out, R::ONE, x);
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

/// `out = scale · a bᵀ`, `out` `[a.len(), b.len()]`.
pub fn outer<R: Real>(out: &mut [R], scale: R, a: &[R], b: &[R]) {
    for (row, &a) in out.chunks_exact_mut(b.len()).zip(a) {
        for (x, &b) in row.iter_mut().zip(b) {
            *x = scale * a * b;
        }
    }
}

/// `out = aᵀ M`, `matrix` `[a.len(), out.len()]`.
pub fn row_product<R: Real>(a: &[R], matrix: &[R], out: &mut [R]) {
    let width = out.len();
    let (blocks, rest) = out.as_chunks_mut::<COLUMNS>();
    for (block, out) in blocks.iter_mut().enumerate() {
        let mut sums = [R::ZERO; COLUMNS];
        for (row, &a) in matrix.chunks_exact(width).zip(a) {
            let row = &row[block * COLUMNS..(block + 1) * COLUMNS];
            for (sum, &x) in sums.iter_mut().zip(row) {
                *sum += a * x;
            }
        }
        *out = sums;
    }
    if !rest.is_empty() {
        rest.fill(R::ZERO);
        for (row, &a) in matrix.chunks_exact(width).zip(a) {
            add_scaled(rest, a, &row[width - rest.len()..]);
        }
    }
}
