// The gradient at a chunk's end as an entered state meets it under the gated delta rule: taken back through the chunk.
@group(0) @binding(3) var<storage, read> carried_gradients: array<f32>;         // [B H, chunks, K, Dk, Dv] T' dS'

fn carried_scale(cell: u32, stale: f32) -> f32 {
    return 1.0;
}

fn carried_gradient(at: u32) -> f32 {
    return carried_gradients[at];
}
