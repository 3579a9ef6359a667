//! Gradients of layers against finite differences.

/// `len` numbers in −1 to 1, others for another `seed`.
pub(crate) fn numbers(len: usize, seed: u64) -> Vec<f64> {
    let mut state = seed;
    let mut next = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    next(); // small seeds begin alike
    (0..len).map(|_| next()).collect()
}

/// Every entry of `gradient` is the central difference of `loss` at `x`.
pub(crate) fn assert_gradient(
    what: &str,
    x: &[f64],
    gradient: &[f64],
    loss: impl Fn(&[f64]) -> f64,
) {
    assert_eq!(gradient.len(), x.len(), "{what}");
    let step = 1e-5;
    let mut moved = x.to_vec();
    for i in 0..x.len() {
        let mut at = |value: f64| {
            moved[i] = value;
            loss(&moved)
        };
        let difference = (at(x[i] + step) - at(x[i] - step)) / (2.0 * step);
        moved[i] = x[i];
        let near = (gradient[i] - difference).abs() <= 1e-8 * (1.0 + difference.abs());
        assert!(
            near,
            "{what} {i}: gradient {}, finite difference {difference}",
            gradient[i]
        );
    }
}
