// The keys with which values stand in the states at a chunk's end under the gated delta rule: K~.
@group(0) @binding(3) var<storage, read> write_keys: array<f32>;            // [B H, chunks, C, Dk] K~

fn written_scale(cell: u32, t: u32) -> f32 {
    return 1.0;
}

fn written_key(sequence: u32, chunk: u32, t: u32, d: u32) -> f32 {
    return write_keys[(cell_of(sequence, chunk) * CHUNK + t) * KEY_DIM + d];
}
