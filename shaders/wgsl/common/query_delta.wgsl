// What reads entered states under the gated delta rule: q~, which holds the transitions and decays of the chunk.
@group(0) @binding(3) var<storage, read> read_queries: array<io>;           // [B H, chunks, C, Dk]

fn query(sequence: u32, chunk: u32, t: u32, d: u32) -> f32 {
    return f32(read_queries[(cell_of(sequence, chunk) * CHUNK + t) * KEY_DIM + d]);
}
