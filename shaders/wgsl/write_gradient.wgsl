// What reaches the keys through what their tokens left in the chunk's final states: e^{A_C - A_s} dS'_{slot(s)} v_s, and
// its product with k_s; without the decay, and with K~_s, for the delta rule. One group a chunk and 64 rows of the states.
@group(0) @binding(5) var<storage, read> v: array<io>;                          // [B, T, H, Dv]
@group(0) @binding(6) var<storage, read> slots: array<vec4<u32>>;               // [B H, chunks, C]
@group(0) @binding(7) var<storage, read> state_gradients: array<f32>;           // [B H, chunks, K, Dk, Dv] at each chunk's end
@group(0) @binding(8) var<storage, read_write> key_gradients: array<f32>;       // [B H, chunks, C, Dk]
@group(0) @binding(9) var<storage, read_write> dots: array<f32>;                // [B H, chunks, DOTS]

const FAR: u32 = 1000u;

fn stage(sequence: u32, first: u32, valid: u32, base: u32, row: u32, column: u32, lane: u32) {
    for (var e = lane; e < INNER * 64u; e += 256u) {
        let i = e % INNER;
        let line = e / INNER;
        let c = column + i;
        var value = 0.0;
        if (line < valid && c < VALUE_DIM) {
            value = f32(v[value_at(sequence, first + line) + c]);
        }
        set_row(i, line, value);
        var x = 0.0;
        if (row + line < KEY_DIM && c < VALUE_DIM) {
            x = state_gradients[base + (row + line) * VALUE_DIM + c];
        }
        set_across(i, line, x);
    }
}

// Whether the gradient of final state j is asked for by a token of state `own`.
fn meets(j: u32, own: u32) -> bool {
    return own < FAR && j <= own + NEAR && own <= j + NEAR;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let at = group_index(group);
    let part = at % KEY_TILES;
    let chunk = at / KEY_TILES % params.chunks;
    let sequence = at / KEY_TILES / params.chunks;
    if (sequence >= params.sequences) {
        return;
    }
    let row = part * 64u;
    let valid = chunk_valid(sequence, chunk);
    if (valid == 0u) {
        return;
    }
    let first = chunk_token(chunk);
    let cell = cell_of(sequence, chunk);
    let starts = slots[cell * CHUNK + valid - 1u];
    let states = bits_below(starts, 128u);
    let x = lane % 16u;
    let y = lane / 16u;
    var keys = Block();
    var own = vec4<u32>(FAR);
    for (var r = 0u; r < 4u; r++) {
        let t = 4u * y + r;
        if (t < valid) {
            own[r] = final_state(starts, 64u + t);
        }
        for (var m = 0u; m < 4u; m++) {
            let d = row + 4u * x + m;
            if (t < valid && d < KEY_DIM) {
                keys[r][m] = written_key(sequence, chunk, t, d);
            }
        }
    }
    var lane_own = FAR;
    if (lane < valid) {
        lane_own = final_state(starts, 64u + lane);
    }
    let oldest = final_state(starts, 64u);
    for (var j = max(oldest, NEAR) - NEAR; j < states; j++) {
        let base = (cell * CAPACITY + j) * STATE;
        let is_met = meets(j, own.x) || meets(j, own.y) || meets(j, own.z) || meets(j, own.w);
        var written = Block();
        for (var column = 0u; column < VALUE_DIM; column += INNER) {
            workgroupBarrier();
            stage(sequence, first, valid, base, row, column, lane);
            workgroupBarrier();
            if (is_met) {
                add_block(&written, x, y);
            }
        }
        for (var r = 0u; r < 4u; r++) {
            let t = 4u * y + r;
            if (meets(j, own[r])) {
                let gradient = written_scale(cell, t) * written[r];
                partials[t * 17u + x] = dot(keys[r], gradient);
                for (var m = 0u; j == own[r] && m < 4u; m++) {
                    let d = row + 4u * x + m;
                    if (d < KEY_DIM) {
                        key_gradients[(cell * CHUNK + t) * KEY_DIM + d] = gradient[m];
                    }
                }
            }
        }
        workgroupBarrier();
        if (meets(j, lane_own)) {
            dots[write_dot_at(cell, part, j + 1u - lane_own, lane)] = row_sum(lane);
        }
    }
}
