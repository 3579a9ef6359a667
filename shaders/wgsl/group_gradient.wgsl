// The gradients by queries and keys, which the heads of a group share: summed over them. One thread a value.
@group(0) @binding(3) var<storage, read> query_gradients: array<f32>;           // [B H, chunks, C, Dk]
@group(0) @binding(4) var<storage, read> key_gradients: array<f32>;             // [B H, chunks, C, Dk]
@group(0) @binding(5) var<storage, read_write> d_q: array<f32>;                 // [B, T, G, Dk]
@group(0) @binding(6) var<storage, read_write> d_k: array<f32>;                 // [B, T, G, Dk]

const SHARED: u32 = HEADS / GROUPS;    // heads of a group

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let at = group_index(group) * 256u + lane;
    let d = at % KEY_DIM;
    let key_group = at / KEY_DIM % GROUPS;
    let t = at / KEY_DIM / GROUPS % CHUNK;
    let chunk = at / KEY_DIM / GROUPS / CHUNK % params.chunks;
    let item = at / KEY_DIM / GROUPS / CHUNK / params.chunks;
    let head = item * HEADS + key_group * SHARED;
    let token = chunk_token(chunk) + t;
    if (head >= params.sequences || token >= params.tokens) {
        return;
    }
    var query = 0.0;
    var key = 0.0;
    if (t < chunk_valid(head, chunk)) {
        for (var h = 0u; h < SHARED; h++) {
            let row = (cell_of(head + h, chunk) * CHUNK + t) * KEY_DIM + d;
            query += query_gradients[row];
            key += key_gradients[row];
        }
    }
    let out = key_at(head, token) + d;
    d_q[out] = query;
    d_k[out] = key;
}
