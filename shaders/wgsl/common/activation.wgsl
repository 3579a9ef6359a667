// Twins of dla-core's nn/activation.rs, stable at both ends.

// 1 / (1 + e^-x).
fn sigmoid(x: f32) -> f32 {
    let e = exp(-abs(x));
    return select(1.0, e, x < 0.0) / (1.0 + e);
}

// x sigmoid(x); NaN stays NaN.
fn silu(x: f32) -> f32 {
    return x * sigmoid(x);
}

// ln(1 + e) for e from 0 to 1, as 2 artanh(e / (2 + e)): no cancellation that a compiler could undo.
fn log_1p(e: f32) -> f32 {
    let s = e / (2.0 + e);
    let z = s * s;
    let tail = 1.0 / 9.0 + z * (1.0 / 11.0 + z * (1.0 / 13.0 + z / 15.0));
    return 2.0 * s * (1.0 + z * (1.0 / 3.0 + z * (1.0 / 5.0 + z * (1.0 / 7.0 + z * tail))));
}

// ln(1 + e^x), without overflow for large x and without loss for small; NaN stays NaN.
fn softplus(x: f32) -> f32 {
    return select(x, 0.0, x < 0.0) + log_1p(exp(-abs(x)));
}
