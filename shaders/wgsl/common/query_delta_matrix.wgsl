// query_delta four values at a time.
@group(0) @binding(3) var<storage, read> read_queries: array<vec4<f16>>;    // [B H, chunks, C, Dk / 4]

fn query(sequence: u32, chunk: u32, t: u32, d: u32) -> vec4<f16> {
    return read_queries[(cell_of(sequence, chunk) * CHUNK + t) * (KEY_DIM / 4u) + d];
}
