// How entered states are read under a scalar decay: by the query itself, from a version that decayed since.
@group(0) @binding(3) var<storage, read> q: array<io>;                      // [B, T, G, Dk]
@group(0) @binding(4) var<storage, read> decay: array<f32>;                 // [B H, chunks, C]

fn query(sequence: u32, chunk: u32, t: u32, d: u32) -> f32 {
    return f32(q[key_at(sequence, chunk_token(chunk) + t) + d]);
}

fn entered_decay(cell: u32, t: u32, stale: f32) -> f32 {
    return exp(decay[cell * CHUNK + t] + stale);
}
