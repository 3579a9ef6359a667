// Attention over the keys and values that are kept, the call's own among them.
@group(0) @binding(6) var<storage, read> keys_values: array<f32>;    // [B, room, 2, H, D] keys, values

// A column of a token's key (part 1) or value (2); 0 outside.
fn source(part: u32, item: u32, s: u32, head: u32, column: u32) -> f32 {
    if (s >= after(item) || column >= KEY_DIM) {
        return 0.0;
    }
    return keys_values[kept_at(item, s, part - 1u, head) + column];
}
