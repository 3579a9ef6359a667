// What reads entered states under a scalar decay: the query itself.
@group(0) @binding(3) var<storage, read> q: array<io>;                      // [B, T, G, Dk]

fn query(sequence: u32, chunk: u32, t: u32, d: u32) -> f32 {
    return f32(q[key_at(sequence, chunk_token(chunk) + t) + d]);
}
