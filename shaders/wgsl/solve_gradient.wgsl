// The gated delta rule's mixing backwards, one group a chunk. Forwards M = R N with R = Q K' * Gamma and
// N = (1/beta + G)^-1, G = tril_{-1}(K K' * Gamma); K~ = (Gamma_C * K)' N. Backwards, all triangles lower ones,
//     dR = dM N'      dN = R' dM + Gamma_C K dK~'      Z = dN (N / beta)'      H = N' Z
//     dG_us = -beta_s H_us      dbeta_s = Z_ss - sum_{u > s} G_us H_us
// where N / beta divides rows, so that it is known for beta = 0 too.
@group(0) @binding(3) var<storage, read> q: array<io>;                          // [B, T, G, Dk]
@group(0) @binding(4) var<storage, read> k: array<io>;                          // [B, T, G, Dk]
@group(0) @binding(5) var<storage, read> control: array<f32>;                   // [B, T, H, 2 + K]
@group(0) @binding(6) var<storage, read> decay: array<f32>;                     // [B H, chunks, C]
@group(0) @binding(7) var<storage, read> probes: array<f32>;                    // [B H, chunks, C, C] P
@group(0) @binding(8) var<storage, read> mix_gradients: array<f32>;             // [B H, chunks, 3, C, C]
@group(0) @binding(9) var<storage, read> write_gradients: array<f32>;           // [B H, chunks, C, Dk] dK~
@group(0) @binding(10) var<storage, read_write> solve_gradients: array<f32>;    // [B H, chunks, 6, C, C]

var<workgroup> a: array<f32, 64>;
var<workgroup> beta: array<f32, 64>;

struct Chunk {
    sequence: u32,
    cell: u32,
    first: u32,
    valid: u32,
}

// (N / beta)_ts, its diagonal 1.
fn mixing(chunk: Chunk, t: u32, s: u32) -> f32 {
    if (t >= chunk.valid || s > t) {
        return 0.0;
    }
    if (s == t) {
        return 1.0;
    }
    return -exp(a[t] - a[t - 1u]) * probes[(chunk.cell * CHUNK + t) * CHUNK + s];
}

fn mix_gradient(chunk: Chunk, t: u32, s: u32) -> f32 {
    if (t >= chunk.valid || s > t) {
        return 0.0;
    }
    return mix_gradients[mix_at(chunk.cell, SCORE_MIX, t, s)];
}

const QUERIES: u32 = 0u;
const KEYS: u32 = 1u;
const WRITES: u32 = 2u;

fn factor(chunk: Chunk, which: u32, t: u32, d: u32) -> f32 {
    if (t >= chunk.valid || d >= KEY_DIM) {
        return 0.0;
    }
    if (which == WRITES) {
        return write_gradients[(chunk.cell * CHUNK + t) * KEY_DIM + d];
    }
    let at = key_at(chunk.sequence, chunk.first + t) + d;
    if (which == QUERIES) {
        return f32(q[at]);
    }
    return f32(k[at]);
}

// Every token's dot with every other's: the rows are factor `down`, the columns factor `right`.
fn gram(chunk: Chunk, down: u32, right: u32, lane: u32) -> Block {
    var sum = Block();
    for (var column = 0u; column < KEY_DIM; column += INNER) {
        workgroupBarrier();
        for (var e = lane; e < INNER * 64u; e += 256u) {
            let d = column + e % INNER;
            set_row(e % INNER, e / INNER, factor(chunk, down, e / INNER, d));
            set_across(e % INNER, e / INNER, factor(chunk, right, e / INNER, d));
        }
        workgroupBarrier();
        add_block(&sum, lane % 16u, lane / 16u);
    }
    return sum;
}

// Keeps what lies on or below the diagonal, scaled by e^{A_t - A_s}.
fn decayed(chunk: Chunk, sum: ptr<function, Block>, x: u32, y: u32) {
    for (var r = 0u; r < 4u; r++) {
        for (var m = 0u; m < 4u; m++) {
            let t = 4u * y + r;
            let s = 4u * x + m;
            if (t < chunk.valid && s <= t) {
                (*sum)[r][m] *= exp(a[t] - a[s]);
            } else {
                (*sum)[r][m] = 0.0;
            }
        }
    }
}

// Stages rows 16 part to 16 part + 15 of a block, as rows or across.
fn stage_rows(block: ptr<function, Block>, part: u32, down: bool, x: u32, y: u32) {
    if (y / 4u != part) {
        return;
    }
    for (var r = 0u; r < 4u; r++) {
        let at = (4u * (y % 4u) + r) * LINE + x;
        if (down) {
            rows[at] = (*block)[r];
        } else {
            across[at] = (*block)[r];
        }
    }
}

// Stages columns 16 part to 16 part + 15 of a block as rows.
fn stage_columns(block: ptr<function, Block>, part: u32, x: u32, y: u32) {
    if (x / 4u != part) {
        return;
    }
    for (var m = 0u; m < 4u; m++) {
        rows[(4u * (x % 4u) + m) * LINE + y] = vec4<f32>((*block)[0][m], (*block)[1][m], (*block)[2][m], (*block)[3][m]);
    }
}

// dM N'.
fn by_scores(chunk: Chunk, lane: u32) -> Block {
    var sum = Block();
    for (var source = 0u; source < chunk.valid; source += INNER) {
        workgroupBarrier();
        for (var e = lane; e < INNER * 64u; e += 256u) {
            let t = e / INNER;
            let j = source + e % INNER;
            set_row(e % INNER, t, mix_gradient(chunk, t, j));
            set_across(e % INNER, t, beta[t] * mixing(chunk, t, j));
        }
        workgroupBarrier();
        add_block(&sum, lane % 16u, lane / 16u);
    }
    return sum;
}

// Adds R' dM.
fn add_by_mixing(sum: ptr<function, Block>, chunk: Chunk, scores: ptr<function, Block>, lane: u32) {
    for (var part = 0u; 16u * part < chunk.valid; part++) {
        workgroupBarrier();
        stage_rows(scores, part, true, lane % 16u, lane / 16u);
        for (var e = lane; e < INNER * 64u; e += 256u) {
            set_across(e / 64u, e % 64u, mix_gradient(chunk, 16u * part + e / 64u, e % 64u));
        }
        workgroupBarrier();
        add_block(sum, lane % 16u, lane / 16u);
    }
}

// Z.
fn by_sources(chunk: Chunk, mixed: ptr<function, Block>, lane: u32) -> Block {
    var sum = Block();
    for (var part = 0u; 16u * part < chunk.valid; part++) {
        workgroupBarrier();
        stage_columns(mixed, part, lane % 16u, lane / 16u);
        for (var e = lane; e < INNER * 64u; e += 256u) {
            set_across(e % INNER, e / INNER, mixing(chunk, e / INNER, 16u * part + e % INNER));
        }
        workgroupBarrier();
        add_block(&sum, lane % 16u, lane / 16u);
    }
    return sum;
}

// H.
fn by_solution(chunk: Chunk, sources: ptr<function, Block>, lane: u32) -> Block {
    var sum = Block();
    for (var part = 0u; 16u * part < chunk.valid; part++) {
        workgroupBarrier();
        stage_rows(sources, part, false, lane % 16u, lane / 16u);
        for (var e = lane; e < INNER * 64u; e += 256u) {
            let w = 16u * part + e / 64u;
            set_row(e / 64u, e % 64u, beta[w] * mixing(chunk, w, e % 64u));
        }
        workgroupBarrier();
        add_block(&sum, lane % 16u, lane / 16u);
    }
    return sum;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let at = group_index(group);
    let sequence = at / params.chunks;
    if (sequence >= params.sequences) {
        return;
    }
    let index = at % params.chunks;
    let chunk = Chunk(sequence, cell_of(sequence, index), chunk_token(index), chunk_valid(sequence, index));
    let x = lane % 16u;
    let y = lane / 16u;
    if (lane < 64u) {
        a[lane] = 0.0;
        beta[lane] = 0.0;
        if (lane < chunk.valid) {
            a[lane] = decay[chunk.cell * CHUNK + lane];
            beta[lane] = control[control_at(sequence, chunk.first + lane) + 1u];
        }
    }
    workgroupBarrier();
    let total = decay[chunk.cell * CHUNK + CHUNK - 1u];

    var scores = gram(chunk, QUERIES, KEYS, lane);
    decayed(chunk, &scores, x, y);
    var keys = gram(chunk, KEYS, KEYS, lane);
    decayed(chunk, &keys, x, y);
    var mixed = gram(chunk, KEYS, WRITES, lane);
    for (var r = 0u; r < 4u; r++) {
        for (var m = 0u; m < 4u; m++) {
            let t = 4u * y + r;
            let s = 4u * x + m;
            if (t < chunk.valid && s <= t) {
                let scale = exp(total - a[t]);
                let n = beta[t] * mixing(chunk, t, s);
                mixed[r][m] *= scale;
                solve_gradients[solve_at(chunk.cell, WRITTEN, t, s)] = scale * n;
                solve_gradients[solve_at(chunk.cell, KEPT, t, s)] = n * mixed[r][m];
            } else {
                mixed[r][m] = 0.0;
            }
        }
    }
    var query_scores = by_scores(chunk, lane);
    add_by_mixing(&mixed, chunk, &scores, lane);
    for (var r = 0u; r < 4u; r++) {
        for (var m = 0u; m < 4u; m++) {
            if (4u * x + m > 4u * y + r) {
                mixed[r][m] = 0.0;
            }
        }
    }
    var sources = by_sources(chunk, &mixed, lane);
    var solution = by_solution(chunk, &sources, lane);
    for (var r = 0u; r < 4u; r++) {
        for (var m = 0u; m < 4u; m++) {
            let t = 4u * y + r;
            let s = 4u * x + m;
            if (t >= chunk.valid || s > t) {
                continue;
            }
            let seen = exp(a[t] - a[s]);
            solve_gradients[solve_at(chunk.cell, QUERY_SCORE, t, s)] = seen * query_scores[r][m];
            if (s < t) {
                let by_key = -beta[s] * solution[r][m];
                solve_gradients[solve_at(chunk.cell, KEY_SCORE, t, s)] = seen * by_key;
                solve_gradients[solve_at(chunk.cell, SEEN, t, s)] = scores[r][m] * query_scores[r][m] + keys[r][m] * by_key;
                solve_gradients[solve_at(chunk.cell, STRENGTH, t, s)] = keys[r][m] * solution[r][m];
            } else {
                solve_gradients[solve_at(chunk.cell, STRENGTH, t, s)] = -sources[r][m];
            }
        }
    }
}
