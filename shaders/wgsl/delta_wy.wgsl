// The gated delta rule's mixing inside a chunk, one group a chunk (docs/algorithm.md, Chunkwise form):
// N = (I + tril_{-1}(diag(beta) K K' * Gamma))^-1 diag(beta) by forward substitution, and with it the keys K~ with which
// values stand in the states at the chunk's end.
//
// Kept is P_tj, j < t: what the key of t reads of v_j before its own transition. N_tj = -beta_t e^{g_t} P_tj.
@group(0) @binding(3) var<storage, read> k: array<io>;                      // [B, T, G, Dk]
@group(0) @binding(4) var<storage, read> control: array<f32>;               // [B, T, H, 2 + K]
@group(0) @binding(5) var<storage, read> decay: array<f32>;                 // [B H, chunks, C]
@group(0) @binding(6) var<storage, read_write> probes: array<f32>;          // [B H, chunks, C, C] P, |k_t|^2 on its diagonal
@group(0) @binding(7) var<storage, read_write> erase_keys: array<f32>;      // [B H, chunks, Dk, C] e^{A_t} k_t
@group(0) @binding(8) var<storage, read_write> write_keys: array<f32>;      // [B H, chunks, C, Dk] K~

var<workgroup> mixing: array<f32, PAIRS + 1u>;    // N below the diagonal
var<workgroup> a: array<f32, CHUNK>;
var<workgroup> beta: array<f32, CHUNK>;

fn mixing_at(s: u32, j: u32) -> f32 {
    return select(mixing[pair(s, j)], beta[j], s == j);
}

// tile[i][column] of tokens from `first` on, scaled to the chunk's end.
fn stage_written(sequence: u32, chunk: u32, source: u32, across: u32, valid: u32, lane: u32) {
    for (var e = lane; e < TILE * 64u; e += 256u) {
        let s = source + e / 64u;
        let d = across + e % 64u;
        var x = 0.0;
        if (s < valid && d < KEY_DIM) {
            x = exp(a[CHUNK - 1u] - a[s]) * f32(k[key_at(sequence, chunk_token(chunk) + s) + d]);
        }
        tile[e / 64u * PITCH + e % 64u] = x;
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
    if (lane < CHUNK) {
        a[lane] = decay[cell * CHUNK + lane];
        beta[lane] = 0.0;
        if (lane < valid) {
            beta[lane] = control[control_at(sequence, first + lane) + 1u];
        }
    }

    // 1. K K' * Gamma as the key of t sees it before its transition: e^{A_{t-1} - A_j} k_t.k_j.
    var gram = array<vec4<f32>, 4>();
    for (var column = 0u; column < KEY_DIM; column += TILE) {
        workgroupBarrier();
        for (var e = lane; e < TILE * 64u; e += 256u) {
            let t = e / TILE;
            let d = column + e % TILE;
            var key = 0.0;
            if (t < valid && d < KEY_DIM) {
                key = f32(k[key_at(sequence, first + t) + d]);
            }
            tile[e % TILE * PITCH + t] = key;
        }
        workgroupBarrier();
        for (var e = lane; e < TILE * CHUNK; e += 256u) {
            let t = e % CHUNK;
            let d = column + e / CHUNK;
            if (d < KEY_DIM) {
                erase_keys[(cell * KEY_DIM + d) * CHUNK + t] = exp(a[t]) * tile[e / CHUNK * PITCH + t];
            }
        }
        add_gram(&gram, x, y);
    }
    for (var r = 0u; r < 4u; r++) {
        for (var m = 0u; m < 4u; m++) {
            let t = y + 16u * r;
            let j = x + 16u * m;
            if (t < CHUNK && j < t) {
                mixing[pair(t, j)] = exp(a[t - 1u] - a[j]) * gram[r][m];
            }
            if (t < CHUNK && j == t) {
                probes[(cell * CHUNK + t) * CHUNK + t] = gram[r][m];
            }
        }
    }
    workgroupBarrier();

    // 2. P_tj = sum_{j <= s < t} (that) N_sj, row by row; four threads share a column's sum.
    for (var t = 1u; t < valid; t++) {
        let j = lane % 64u;
        var sum = 0.0;
        for (var s = j + lane / 64u; s < t; s += 4u) {
            sum += mixing[pair(t, s)] * mixing_at(s, j);
        }
        tile[lane] = sum;
        workgroupBarrier();
        if (lane < t) {
            let probe = tile[lane] + tile[lane + 64u] + tile[lane + 128u] + tile[lane + 192u];
            probes[(cell * CHUNK + t) * CHUNK + lane] = probe;
            mixing[pair(t, lane)] = -beta[t] * exp(a[t] - a[t - 1u]) * probe;
        }
        workgroupBarrier();
    }

    // 3. K~_j = sum_{s >= j} N_sj e^{A_C - A_s} k_s.
    for (var across = 0u; across < KEY_DIM; across += 64u) {
        var sum = array<vec4<f32>, 4>();
        for (var source = 0u; source < valid; source += TILE) {
            workgroupBarrier();
            stage_written(sequence, chunk, source, across, valid, lane);
            workgroupBarrier();
            for (var s = source; s < min(source + TILE, valid); s++) {
                let key = columns(s - source, x);
                for (var r = 0u; r < 4u; r++) {
                    if (y + 16u * r <= s) {
                        sum[r] += mixing_at(s, y + 16u * r) * key;
                    }
                }
            }
        }
        for (var r = 0u; r < 4u; r++) {
            for (var m = 0u; m < 4u; m++) {
                let j = y + 16u * r;
                let d = across + x + 16u * m;
                if (j < valid && d < KEY_DIM) {
                    write_keys[(cell * CHUNK + j) * KEY_DIM + d] = sum[r][m];
                }
            }
        }
    }
}
