// The chunk's attention form backwards under the gated delta rule, one group a chunk: with lambda_ts the read weight of t
// for s, the mixes lambda M, lambda (v_s.do_t) - e^{A_s} k_s.dq~_t and M (v_s.do_t).
@group(0) @binding(3) var<storage, read> v: array<io>;                          // [B, T, H, Dv]
@group(0) @binding(4) var<storage, read> d_o: array<f32>;                       // [B, T, H, Dv]
@group(0) @binding(5) var<storage, read> control: array<f32>;                   // [B, T, H, 2 + K]
@group(0) @binding(6) var<storage, read> slots: array<vec4<u32>>;               // [B H, chunks, C]
@group(0) @binding(7) var<storage, read> erase_keys: array<f32>;                // [B H, chunks, Dk, C] e^{A_t} k_t
@group(0) @binding(8) var<storage, read> mixes: array<f32>;                     // [B H, chunks, C, C] M, up to its diagonal
@group(0) @binding(9) var<storage, read> query_gradients: array<f32>;           // [B H, chunks, C, Dk] dq~
@group(0) @binding(10) var<storage, read_write> mix_gradients: array<f32>;      // [B H, chunks, 3, C, C]

fn stage_values(sequence: u32, first: u32, valid: u32, column: u32, lane: u32) {
    for (var e = lane; e < INNER * 64u; e += 256u) {
        let i = e % INNER;
        let t = e / INNER;
        var output = 0.0;
        var value = 0.0;
        if (t < valid && column + i < VALUE_DIM) {
            let at = value_at(sequence, first + t) + column + i;
            output = d_o[at];
            value = f32(v[at]);
        }
        set_row(i, t, output);
        set_across(i, t, value);
    }
}

fn stage_erased(cell: u32, valid: u32, row: u32, lane: u32) {
    for (var e = lane; e < INNER * 64u; e += 256u) {
        let t = e / INNER;
        var query = 0.0;
        if (t < valid && row + e % INNER < KEY_DIM) {
            query = query_gradients[(cell * CHUNK + t) * KEY_DIM + row + e % INNER];
        }
        set_row(e % INNER, t, query);
        let s = e % 64u;
        var key = 0.0;
        if (s < valid && row + e / 64u < KEY_DIM) {
            key = erase_keys[(cell * KEY_DIM + row + e / 64u) * CHUNK + s];
        }
        set_across(e / 64u, s, key);
    }
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
    let first = chunk_token(chunk);
    let cell = cell_of(sequence, chunk);
    let x = lane % 16u;
    let y = lane / 16u;
    var values = Block();
    for (var column = 0u; column < VALUE_DIM; column += INNER) {
        workgroupBarrier();
        stage_values(sequence, first, valid, column, lane);
        workgroupBarrier();
        add_block(&values, x, y);
    }
    var erased = Block();
    for (var row = 0u; row < KEY_DIM; row += INNER) {
        workgroupBarrier();
        stage_erased(cell, valid, row, lane);
        workgroupBarrier();
        add_block(&erased, x, y);
    }
    for (var r = 0u; r < 4u; r++) {
        for (var m = 0u; m < 4u; m++) {
            let t = 4u * y + r;
            let s = 4u * x + m;
            if (t < valid && s <= t) {
                let rank = rank_of_token(slots[cell * CHUNK + t], s);
                let weight = control[control_at(sequence, first + t) + 2u + rank];
                let mix = mixes[(cell * CHUNK + t) * CHUNK + s];
                mix_gradients[mix_at(cell, VALUE_MIX, t, s)] = weight * mix;
                mix_gradients[mix_at(cell, SCORE_MIX, t, s)] = weight * values[r][m] - erased[r][m];
                mix_gradients[mix_at(cell, READ_MIX, t, s)] = mix * values[r][m];
            }
        }
    }
}
