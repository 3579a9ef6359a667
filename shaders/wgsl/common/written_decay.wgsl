// The keys with which values stand in the states at a chunk's end under a scalar decay: e^{A_C - A_t} k_t.
@group(0) @binding(3) var<storage, read> k: array<io>;                      // [B, T, G, Dk]
@group(0) @binding(4) var<storage, read> decay: array<f32>;                 // [B H, chunks, C]

fn written_scale(cell: u32, t: u32) -> f32 {
    return exp(decay[cell * CHUNK + CHUNK - 1u] - decay[cell * CHUNK + t]);
}

fn written_key(sequence: u32, chunk: u32, t: u32, d: u32) -> f32 {
    return f32(k[key_at(sequence, chunk_token(chunk) + t) + d]);
}
