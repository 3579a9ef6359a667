// The chunk's attention form backwards under a scalar decay, one group a chunk: with G_ts = e^{A_t - A_s} and
// lambda_ts the read weight of t for s, the mixes lambda G (q_t.k_s), lambda G (v_s.do_t) and G (q_t.k_s)(v_s.do_t).
@group(0) @binding(3) var<storage, read> q: array<io>;                          // [B, T, G, Dk]
@group(0) @binding(4) var<storage, read> k: array<io>;                          // [B, T, G, Dk]
@group(0) @binding(5) var<storage, read> v: array<io>;                          // [B, T, H, Dv]
@group(0) @binding(6) var<storage, read> d_o: array<f32>;                       // [B, T, H, Dv]
@group(0) @binding(7) var<storage, read> control: array<f32>;                   // [B, T, H, 2 + K]
@group(0) @binding(8) var<storage, read> decay: array<f32>;                     // [B H, chunks, C]
@group(0) @binding(9) var<storage, read> slots: array<vec4<u32>>;               // [B H, chunks, C]
@group(0) @binding(10) var<storage, read_write> mix_gradients: array<f32>;      // [B H, chunks, 3, C, C]

fn stage_scores(sequence: u32, first: u32, valid: u32, column: u32, lane: u32) {
    for (var e = lane; e < INNER * 64u; e += 256u) {
        let i = e % INNER;
        let t = e / INNER;
        var query = 0.0;
        var key = 0.0;
        if (t < valid && column + i < KEY_DIM) {
            let at = key_at(sequence, first + t) + column + i;
            query = f32(q[at]);
            key = f32(k[at]);
        }
        set_row(i, t, query);
        set_across(i, t, key);
    }
}

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
    var scores = Block();
    for (var column = 0u; column < KEY_DIM; column += INNER) {
        workgroupBarrier();
        stage_scores(sequence, first, valid, column, lane);
        workgroupBarrier();
        add_block(&scores, x, y);
    }
    var values = Block();
    for (var column = 0u; column < VALUE_DIM; column += INNER) {
        workgroupBarrier();
        stage_values(sequence, first, valid, column, lane);
        workgroupBarrier();
        add_block(&values, x, y);
    }
    for (var r = 0u; r < 4u; r++) {
        for (var m = 0u; m < 4u; m++) {
            let t = 4u * y + r;
            let s = 4u * x + m;
            if (t < valid && s <= t) {
                let rank = rank_of_token(slots[cell * CHUNK + t], s);
                let weight = control[control_at(sequence, first + t) + 2u + rank];
                let seen = exp(decay[cell * CHUNK + t] - decay[cell * CHUNK + s]);
                let score = seen * scores[r][m];
                mix_gradients[mix_at(cell, VALUE_MIX, t, s)] = weight * score;
                mix_gradients[mix_at(cell, SCORE_MIX, t, s)] = weight * seen * values[r][m];
                mix_gradients[mix_at(cell, READ_MIX, t, s)] = score * values[r][m];
            }
        }
    }
}
