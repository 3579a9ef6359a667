// The gradients by the values, one group a chunk and 64 columns: from the outputs of the chunk that mix them, and from
// the final state that holds them, dV_s = sum_{t >= s} mix_ts do_t + dS'_{slot(s)}' (the key that wrote v_s).
@group(0) @binding(5) var<storage, read> d_o: array<f32>;                       // [B, T, H, Dv]
@group(0) @binding(6) var<storage, read> slots: array<vec4<u32>>;               // [B H, chunks, C]
@group(0) @binding(7) var<storage, read> mix_gradients: array<f32>;             // [B H, chunks, 3, C, C]
@group(0) @binding(8) var<storage, read> state_gradients: array<f32>;           // [B H, chunks, K, Dk, Dv] at each chunk's end
@group(0) @binding(9) var<storage, read_write> d_v: array<f32>;                 // [B, T, H, Dv]

const VALUE_TILES: u32 = (VALUE_DIM + 63u) / 64u;

// Outputs of the tokens from `source` on, and what they mixed from every value.
fn stage_outputs(sequence: u32, cell: u32, first: u32, valid: u32, source: u32, column: u32, lane: u32) {
    for (var e = lane; e < INNER * 64u; e += 256u) {
        let i = e / 64u;
        let line = e % 64u;
        let t = source + i;
        var mix = 0.0;
        var output = 0.0;
        if (t < valid && line <= t) {
            mix = mix_gradients[mix_at(cell, VALUE_MIX, t, line)];
        }
        if (t < valid && column + line < VALUE_DIM) {
            output = d_o[value_at(sequence, first + t) + column + line];
        }
        set_row(i, line, mix);
        set_across(i, line, output);
    }
}

// Rows of a state's gradient from `row` on, and the same of the keys.
fn stage_state(sequence: u32, chunk: u32, valid: u32, base: u32, row: u32, column: u32, lane: u32) {
    for (var e = lane; e < INNER * 64u; e += 256u) {
        let t = e / INNER;
        let d = row + e % INNER;
        var key = 0.0;
        if (t < valid && d < KEY_DIM) {
            key = written_key(sequence, chunk, t, d);
        }
        set_row(e % INNER, t, key);
        let line = e % 64u;
        var x = 0.0;
        if (row + e / 64u < KEY_DIM && column + line < VALUE_DIM) {
            x = state_gradients[base + (row + e / 64u) * VALUE_DIM + column + line];
        }
        set_across(e / 64u, line, x);
    }
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let at = group_index(group);
    let column = at % VALUE_TILES * 64u;
    let chunk = at / VALUE_TILES % params.chunks;
    let sequence = at / VALUE_TILES / params.chunks;
    if (sequence >= params.sequences) {
        return;
    }
    let valid = chunk_valid(sequence, chunk);
    let first = chunk_token(chunk);
    let cell = cell_of(sequence, chunk);
    let x = lane % 16u;
    let y = lane / 16u;
    var sum = Block();
    for (var source = 0u; source < valid; source += INNER) {
        workgroupBarrier();
        stage_outputs(sequence, cell, first, valid, source, column, lane);
        workgroupBarrier();
        add_block(&sum, x, y);
    }
    if (valid > 0u) {
        let starts = slots[cell * CHUNK + valid - 1u];
        let states = bits_below(starts, 128u);
        var own = vec4<u32>();
        for (var r = 0u; r < 4u; r++) {
            let t = 4u * y + r;
            own[r] = select(CAPACITY, final_state(starts, 64u + t), t < valid);
        }
        for (var j = final_state(starts, 64u); j < states; j++) {
            let base = (cell * CAPACITY + j) * STATE;
            let holds = any(own == vec4<u32>(j));
            var written = Block();
            for (var row = 0u; row < KEY_DIM; row += INNER) {
                workgroupBarrier();
                stage_state(sequence, chunk, valid, base, row, column, lane);
                workgroupBarrier();
                if (holds) {
                    add_block(&written, x, y);
                }
            }
            for (var r = 0u; r < 4u; r++) {
                if (own[r] == j) {
                    sum[r] += written_scale(cell, 4u * y + r) * written[r];
                }
            }
        }
    }
    for (var r = 0u; r < 4u; r++) {
        for (var m = 0u; m < 4u; m++) {
            let t = 4u * y + r;
            let c = column + 4u * x + m;
            if (t < CHUNK && first + t < params.tokens && c < VALUE_DIM) {
                d_v[value_at(sequence, first + t) + c] = select(0.0, sum[r][m], t < valid);
            }
        }
    }
}
