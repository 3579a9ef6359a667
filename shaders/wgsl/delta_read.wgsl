// What queries read under the gated delta rule, one group a chunk (docs/algorithm.md, Chunkwise form):
// M = (Q K' * Gamma) N of the chunk's own tokens, and q~_t = e^{A_t} q_t - sum_{s <= t} M_ts e^{A_s} k_s of entered states.
@group(0) @binding(3) var<storage, read> q: array<io>;                      // [B, T, G, Dk]
@group(0) @binding(4) var<storage, read> k: array<io>;                      // [B, T, G, Dk]
@group(0) @binding(5) var<storage, read> control: array<f32>;               // [B, T, H, 2 + K]
@group(0) @binding(6) var<storage, read> decay: array<f32>;                 // [B H, chunks, C]
@group(0) @binding(7) var<storage, read> probes: array<f32>;                // [B H, chunks, C, C] P
@group(0) @binding(8) var<storage, read_write> mixes: array<f32>;           // [B H, chunks, C, C] M, up to its diagonal
@group(0) @binding(9) var<storage, read_write> read_queries: array<io>;     // [B H, chunks, C, Dk] q~

var<workgroup> a: array<f32, 64>;
var<workgroup> beta: array<f32, 64>;

// left[i][t] and tile[i][t]: columns of q and k.
fn stage_columns(sequence: u32, first: u32, column: u32, valid: u32, lane: u32) {
    for (var e = lane; e < TILE * 64u; e += 256u) {
        let t = e / TILE;
        let d = column + e % TILE;
        var query = 0.0;
        var key = 0.0;
        if (t < valid && d < KEY_DIM) {
            let at = key_at(sequence, first + t) + d;
            query = f32(q[at]);
            key = f32(k[at]);
        }
        left[e % TILE * PITCH + t] = query;
        tile[e % TILE * PITCH + t] = key;
    }
}

// tile[i][j] = N_sj of the tokens s from `source` on.
fn stage_mixing(cell: u32, source: u32, valid: u32, lane: u32) {
    for (var e = lane; e < TILE * 64u; e += 256u) {
        let s = source + e / 64u;
        let j = e % 64u;
        var n = 0.0;
        if (s < valid && j < s) {
            n = -beta[s] * exp(a[s] - a[s - 1u]) * probes[(cell * CHUNK + s) * CHUNK + j];
        }
        if (s < valid && j == s) {
            n = beta[s];
        }
        tile[e / 64u * PITCH + j] = n;
    }
}

// tile[i][column] = e^{A_s} k_s of the tokens s from `source` on.
fn stage_keys(sequence: u32, first: u32, source: u32, across: u32, valid: u32, lane: u32) {
    for (var e = lane; e < TILE * 64u; e += 256u) {
        let s = source + e / 64u;
        let d = across + e % 64u;
        var key = 0.0;
        if (s < valid && d < KEY_DIM) {
            key = exp(a[s]) * f32(k[key_at(sequence, first + s) + d]);
        }
        tile[e / 64u * PITCH + e % 64u] = key;
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
    if (lane < valid) {
        a[lane] = decay[cell * CHUNK + lane];
        beta[lane] = control[control_at(sequence, first + lane) + 1u];
    }

    // 1. Q K' * Gamma.
    var dots = array<vec4<f32>, 4>();
    for (var column = 0u; column < KEY_DIM; column += TILE) {
        workgroupBarrier();
        stage_columns(sequence, first, column, valid, lane);
        workgroupBarrier();
        add_product(&dots, x, y, false, 0u);
    }
    for (var r = 0u; r < 4u; r++) {
        for (var m = 0u; m < 4u; m++) {
            let t = y + 16u * r;
            let s = x + 16u * m;
            if (t < valid && s <= t) {
                dots[r][m] *= exp(a[t] - a[s]);
            }
        }
    }

    // 2. M.
    var mixed = array<vec4<f32>, 4>();
    for (var m = 0u; 16u * m < valid; m++) {
        workgroupBarrier();
        stage_left(&dots, m, x, y);
        stage_mixing(cell, 16u * m, valid, lane);
        workgroupBarrier();
        add_product(&mixed, x, y, true, 16u * m);
    }
    for (var r = 0u; r < 4u; r++) {
        for (var m = 0u; m < 4u; m++) {
            let t = y + 16u * r;
            let j = x + 16u * m;
            if (t < valid && j <= t) {
                mixes[(cell * CHUNK + t) * CHUNK + j] = mixed[r][m];
            }
        }
    }

    // 3. q~.
    for (var across = 0u; across < KEY_DIM; across += 64u) {
        var sum = array<vec4<f32>, 4>();
        for (var m = 0u; 16u * m < valid; m++) {
            workgroupBarrier();
            stage_left(&mixed, m, x, y);
            stage_keys(sequence, first, 16u * m, across, valid, lane);
            workgroupBarrier();
            add_product(&sum, x, y, true, 16u * m);
        }
        for (var r = 0u; r < 4u; r++) {
            for (var m = 0u; m < 4u; m++) {
                let t = y + 16u * r;
                let d = across + x + 16u * m;
                if (t < valid && d < KEY_DIM) {
                    let query = exp(a[t]) * f32(q[key_at(sequence, first + t) + d]);
                    read_queries[(cell * CHUNK + t) * KEY_DIM + d] = io(query - sum[r][m]);
                }
            }
        }
    }
}
