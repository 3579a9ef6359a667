// The gradients by the log decays under a scalar decay: g_u scales whatever crosses from before token u to it or
// beyond. One group a chunk, one thread a token.
@group(0) @binding(3) var<storage, read> slots: array<vec4<u32>>;               // [B H, chunks, C]
@group(0) @binding(4) var<storage, read> control: array<f32>;                   // [B, T, H, 2 + K]
@group(0) @binding(5) var<storage, read> entries: array<vec2<u32>>;             // [B H, chunks + 1, 1 + K]
@group(0) @binding(6) var<storage, read> read_weights: array<f32>;              // [B H, chunks, C, K]
@group(0) @binding(7) var<storage, read> mix_gradients: array<f32>;             // [B H, chunks, 3, C, C]
@group(0) @binding(8) var<storage, read> dots: array<f32>;                      // [B H, chunks, DOTS]
@group(0) @binding(9) var<storage, read_write> d_control: array<f32>;           // [B, T, H, 2 + K]

var<workgroup> reads: array<f32, CHUNK>;       // what t reads of entered states and of other tokens, less what others read of t
var<workgroup> kept: array<f32, CHUNK>;       // what t leaves in the final states
var<workgroup> carried: array<f32, CHUNK>;    // parts of what entered states leave there

fn read_mix(sequence: u32, first: u32, cell: u32, t: u32, s: u32) -> f32 {
    let rank = rank_of_token(slots[cell * CHUNK + t], s);
    let weight = control[control_at(sequence, first + t) + 2u + rank];
    return weight * mix_gradients[mix_at(cell, READ_MIX, t, s)];
}

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
    let entered = entries[entry_at(sequence, chunk)].x;
    let valid = chunk_valid(sequence, chunk);
    reads[t] = 0.0;
    kept[t] = 0.0;
    carried[t] = 0.0;
    if (t < valid) {
        var sum = 0.0;
        for (var i = 0u; i < entered; i++) {
            sum += read_weights[(cell * CHUNK + t) * CAPACITY + i] * read_dot(cell, t, i);
        }
        for (var s = 0u; s < t; s++) {
            sum += read_mix(sequence, first, cell, t, s);
        }
        for (var u = t + 1u; u < valid; u++) {
            sum -= read_mix(sequence, first, cell, u, t);
        }
        reads[t] = sum;
        kept[t] = write_dot(cell, 1u, t);
    }
    for (var i = t; valid > 0u && i < entered; i += CHUNK) {
        carried[t] += dots[carry_dot_at(cell, 1u, i)];
    }
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
        d_control[record + 1u] = 0.0;
    }
}
