// What every entered state brings to the chunk's end against the gradient there, <dS'_j, e^{A_C} S_i>: for the final
// state that absorbed it and, for a gate, that one's neighbours. One group a chunk, 32 threads a state.
@group(0) @binding(5) var<storage, read> slots: array<vec4<u32>>;               // [B H, chunks, C]
@group(0) @binding(6) var<storage, read> entries: array<vec2<u32>>;             // [B H, chunks + 1, 1 + K]
@group(0) @binding(7) var<storage, read> versions: array<io>;                   // [B H, chunks, K, Dk, Dv] by place
@group(0) @binding(8) var<storage, read_write> dots: array<f32>;                // [B H, chunks, DOTS]

var<workgroup> sums: array<vec3<f32>, 256>;    // against the state before, its own, the one after

// Values `part`, `part` + 32, ... of entered state i.
fn products(sequence: u32, entry: u32, cell: u32, starts: vec4<u32>, states: u32, i: u32, part: u32) -> vec3<f32> {
    let record = entries[entry + 1u + i];
    let version = (((record.x >> 8u) + sequence * params.segment_chunks) * CAPACITY + (record.x & 255u)) * STATE;
    let own = final_state(starts, i);
    let gradient = (cell * CAPACITY + own) * STATE;
    var sum = vec3<f32>();
    for (var e = part; e < STATE; e += 32u) {
        let x = f32(versions[version + e]);
        sum.y += x * carried_gradient(gradient + e);
        if (NEAR > 0u && own > 0u) {
            sum.x += x * carried_gradient(gradient - STATE + e);
        }
        if (NEAR > 0u && own + 1u < states) {
            sum.z += x * carried_gradient(gradient + STATE + e);
        }
    }
    return carried_scale(cell, bitcast<f32>(record.y)) * sum;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let at = group_index(group);
    let sequence = at / params.chunks;
    if (sequence >= params.sequences) {
        return;
    }
    let chunk = at % params.chunks;
    let valid = chunk_valid(sequence, chunk);
    if (valid == 0u) {
        return;
    }
    let cell = cell_of(sequence, chunk);
    let entry = entry_at(sequence, chunk);
    let entered = entries[entry].x;
    let starts = slots[cell * CHUNK + valid - 1u];
    let states = bits_below(starts, 128u);
    for (var first = 0u; first < entered; first += 8u) {
        let i = first + lane / 32u;
        workgroupBarrier();
        if (i < entered) {
            sums[lane] = products(sequence, entry, cell, starts, states, i, lane % 32u);
        }
        workgroupBarrier();
        if (i < entered && lane % 32u < 3u) {
            var sum = 0.0;
            for (var part = 0u; part < 32u; part++) {
                sum += sums[lane / 32u * 32u + part][lane % 32u];
            }
            dots[carry_dot_at(cell, lane % 32u, i)] = sum;
        }
    }
}
