// The gradients by log decays and write strengths under the gated delta rule: g_u scales whatever crosses from before
// token u to it or beyond. One group a chunk, one thread a token.
@group(0) @binding(3) var<storage, read> q: array<io>;                          // [B, T, G, Dk]
@group(0) @binding(4) var<storage, read> decay: array<f32>;                     // [B H, chunks, C]
@group(0) @binding(5) var<storage, read> erase_keys: array<f32>;                // [B H, chunks, Dk, C] e^{A_t} k_t
@group(0) @binding(6) var<storage, read> query_gradients: array<f32>;           // [B H, chunks, C, Dk] dq~
@group(0) @binding(7) var<storage, read> erase_gradients: array<f32>;           // [B H, chunks, C, Dk]
@group(0) @binding(8) var<storage, read> transition_gradients: array<f32>;      // [B H, chunks, Dk, Dk] dT
@group(0) @binding(9) var<storage, read> solve_gradients: array<f32>;           // [B H, chunks, 6, C, C]
@group(0) @binding(10) var<storage, read_write> d_control: array<f32>;          // [B, T, H, 2 + K]

var<workgroup> reads: array<f32, CHUNK>;      // what crosses to t, less what crosses from it to later tokens
var<workgroup> kept: array<f32, CHUNK>;       // what t leaves in the keys that write
var<workgroup> carried: array<f32, CHUNK>;    // parts of what entered states leave at the chunk's end

@compute @workgroup_size(CHUNK)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) t: u32) {
    let at = group_index(group);
    let sequence = at / params.chunks;
    if (sequence >= params.sequences) {
        return;
    }
    let chunk = at % params.chunks;
    let cell = cell_of(sequence, chunk);
    let first = chunk_token(chunk);
    let valid = chunk_valid(sequence, chunk);
    var seen = 0.0;
    var held = 0.0;
    var carry = 0.0;
    var strength = 0.0;
    if (t < valid) {
        let query = key_at(sequence, first + t);
        let scale = exp(decay[cell * CHUNK + t]);
        for (var d = 0u; d < KEY_DIM; d++) {
            let row = (cell * CHUNK + t) * KEY_DIM + d;
            seen += scale * f32(q[query + d]) * query_gradients[row];
            seen += erase_keys[(cell * KEY_DIM + d) * CHUNK + t] * erase_gradients[row];
        }
        for (var s = 0u; s <= t; s++) {
            if (s < t) {
                seen += solve_gradients[solve_at(cell, SEEN, t, s)];
            }
            held += solve_gradients[solve_at(cell, KEPT, t, s)];
        }
        for (var u = t; u < valid; u++) {
            if (u > t) {
                seen -= solve_gradients[solve_at(cell, SEEN, u, t)];
            }
            strength -= solve_gradients[solve_at(cell, STRENGTH, u, t)];
        }
    }
    for (var d = t; valid > 0u && d < KEY_DIM; d += CHUNK) {
        carry += exp(decay[cell * CHUNK + CHUNK - 1u]) * transition_gradients[(cell * KEY_DIM + d) * KEY_DIM + d];
    }
    reads[t] = seen;
    kept[t] = held;
    carried[t] = carry;
    workgroupBarrier();
    if (first + t < params.tokens) {
        var sum = 0.0;
        if (t < valid) {
            for (var u = 0u; u < CHUNK; u++) {
                sum += carried[u] + select(kept[u], reads[u], u >= t);
            }
        }
        let record = control_at(sequence, first + t);
        d_control[record] = sum;
        d_control[record + 1u] = strength;
    }
}
