// query_decay four values at a time.
@group(0) @binding(3) var<storage, read> q: array<vec4<f16>>;               // [B, T, G, Dk / 4]

fn query(sequence: u32, chunk: u32, t: u32, d: u32) -> vec4<f16> {
    return q[key_at(sequence, chunk_token(chunk) + t) / 4u + d];
}
