// How entered states are read under the gated delta rule: by q~, which holds the transitions; versions are never stale.
@group(0) @binding(3) var<storage, read> read_queries: array<f32>;          // [B H, chunks, C, Dk]

fn query(sequence: u32, chunk: u32, t: u32, d: u32) -> f32 {
    return read_queries[(cell_of(sequence, chunk) * CHUNK + t) * KEY_DIM + d];
}

fn entered_decay(cell: u32, t: u32, stale: f32) -> f32 {
    return 1.0;
}
