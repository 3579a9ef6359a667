// Derivatives of common/activation.wgsl's functions; softplus has sigmoid.

// sigmoid(x) sigmoid(-x).
fn sigmoid_slope(x: f32) -> f32 {
    return sigmoid(x) * sigmoid(-x);
}

// sigmoid(x) (1 + x sigmoid(-x)).
fn silu_slope(x: f32) -> f32 {
    return sigmoid(x) * (1.0 + x * sigmoid(-x));
}
