// Keeps the keys and values of a call's tokens, each at its place in the sequence. One invocation a value.
@group(0) @binding(3) var<storage, read> qkv: array<f32>;                    // [rows, 3, H, D] queries, keys, values
@group(0) @binding(4) var<storage, read_write> keys_values: array<f32>;      // [B, room, 2, H, D] keys, values

const WIDE: u32 = HEADS * KEY_DIM;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let at = group_index(group) * 256u + lane;
    let row = at / (2u * WIDE);
    if (row >= layer.rows) {
        return;
    }
    let item = row / layer.tokens;
    let t = row % layer.tokens;
    let place = before(item) + t;
    if (t < length_of(item) && place < layer.room) {
        let column = at % (2u * WIDE);
        keys_values[kept_at(item, place, 0u, 0u) + column] = qkv[row * 3u * WIDE + WIDE + column];
    }
}
