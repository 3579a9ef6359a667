// The gradient at a chunk's end as an entered state meets it under a scalar decay.
@group(0) @binding(3) var<storage, read> decay: array<f32>;                     // [B H, chunks, C]
@group(0) @binding(4) var<storage, read> state_gradients: array<f32>;           // [B H, chunks, K, Dk, Dv] at each chunk's end

fn carried_scale(cell: u32, stale: f32) -> f32 {
    return exp(decay[cell * CHUNK + CHUNK - 1u] + stale);
}

fn carried_gradient(at: u32) -> f32 {
    return state_gradients[at];
}
