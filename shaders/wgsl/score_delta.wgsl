// Scores of the gated delta rule for every place a state could begin in a chunk, all chunks at once
// (docs/algorithm.md, Score).
//
// The key of t reads w_tp = sum_{p <= j < t} P_tj v_j of a state begun at p. With the Gram matrix of the values
// w_tp.v_t and |w_tp|^2 are row sums, from the right, of P_tp v_p.v_t and of P_tp (2 Z_tp + P_tp |v_p|^2),
// Z_tp = sum_{p < j < t} P_tj v_j.v_p. Each candidate start p then walks its own scalars until the first boundary,
// or until |S|^2 cancels.
@group(0) @binding(3) var<storage, read> v: array<io>;               // [B, T, H, Dv]
@group(0) @binding(4) var<storage, read> control: array<f32>;        // [B, T, H, 2 + K]
@group(0) @binding(5) var<storage, read> decay: array<f32>;          // [B H, chunks, C]
@group(0) @binding(6) var<storage, read> probes: array<f32>;         // [B H, chunks, C, C] P, |k_t|^2 on its diagonal
@group(0) @binding(7) var<storage, read> trace: array<vec2<u32>>;    // [B H, T] (score, event)
@group(0) @binding(8) var<storage, read_write> scores: array<f32>;   // [B H, chunks, C (C - 1) / 2] |w_tp|^2, then the score of t against a state begun at p
@group(0) @binding(9) var<storage, read_write> sums: array<f32>;     // [B H, chunks, 5, C] A_t, beta_t, |k_t|^2, |s_t|^2, next boundary after p; C + t where |S|^2 cancelled at t

var<workgroup> table: array<f32, PAIRS + 1u>;
var<workgroup> v2: array<f32, 64>;
var<workgroup> steps: array<Step, CHUNK>;

fn probe_at(cell: u32, t: u32, j: u32) -> f32 {
    return probes[(cell * CHUNK + t) * CHUNK + j];
}

// The Gram matrix of the values.
fn value_gram(sum: ptr<function, array<vec4<f32>, 4>>, sequence: u32, first: u32, valid: u32, lane: u32) {
    for (var column = 0u; column < VALUE_DIM; column += TILE) {
        workgroupBarrier();
        for (var e = lane; e < TILE * 64u; e += 256u) {
            let t = e / TILE;
            let d = column + e % TILE;
            var x = 0.0;
            if (t < valid && d < VALUE_DIM) {
                x = f32(v[value_at(sequence, first + t) + d]);
            }
            tile[e % TILE * PITCH + t] = x;
        }
        workgroupBarrier();
        add_gram(sum, lane % 16u, lane / 16u);
    }
}

// Z from the Gram matrix, 16 of its rows at a time.
fn add_z(z: ptr<function, array<vec4<f32>, 4>>, gram: ptr<function, array<vec4<f32>, 4>>, cell: u32, valid: u32, lane: u32) {
    let x = lane % 16u;
    let y = lane / 16u;
    let starts = vec4<u32>(x, x + 16u, x + 32u, x + 48u);
    for (var m = 0u; 16u * m < valid; m++) {
        workgroupBarrier();
        for (var c = 0u; c < 4u; c++) {
            tile[y * PITCH + x + 16u * c] = (*gram)[m][c];
        }
        workgroupBarrier();
        for (var i = 0u; i < unrolled(TILE); i++) {
            let j = 16u * m + i;
            let line = select(vec4<f32>(), columns(i, x), starts < vec4<u32>(j));
            for (var r = 0u; r < 4u; r++) {
                let t = y + 16u * r;
                if (j < t && t < valid) {
                    (*z)[r] += probe_at(cell, t, j) * line;
                }
            }
        }
    }
}

// One thread a row: table[t, p] becomes its sum over p and all later starts.
fn sum_rows(t: u32) {
    var sum = 0.0;
    for (var p = t; p > 0u; p--) {
        sum += table[pair(t, p - 1u)];
        table[pair(t, p - 1u)] = sum;
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
    if (valid == 0u) {
        return;
    }
    let first = chunk_token(chunk);
    let cell = cell_of(sequence, chunk);
    let x = lane % 16u;
    let y = lane / 16u;

    // 1. The Gram matrix of the values, Z, and every token's step.
    var gram = array<vec4<f32>, 4>();
    value_gram(&gram, sequence, first, valid, lane);
    var z = array<vec4<f32>, 4>();
    add_z(&z, &gram, cell, valid, lane);
    for (var r = 0u; r < 4u; r++) {
        if (x == y) {
            v2[y + 16u * r] = gram[r][r];
        }
    }
    workgroupBarrier();
    if (lane < valid) {
        let t = lane;
        let a = decay[cell * CHUNK + t];
        let beta = control[control_at(sequence, first + t) + 1u];
        let k2 = probe_at(cell, t, t);
        let s2 = beta * beta * k2 * v2[t];
        var before = 0.0;
        if (t > 0u) {
            before = decay[cell * CHUNK + t - 1u];
        }
        steps[t] = step_of(a - before, beta, k2, s2);
        let row = cell * 5u * CHUNK + t;
        sums[row] = a;
        sums[row + CHUNK] = beta;
        sums[row + 2u * CHUNK] = k2;
        sums[row + 3u * CHUNK] = s2;
    }

    // 2. The row sums of |w|^2, to `scores` for now, and those of w.v, which stay in the table.
    for (var r = 0u; r < 4u; r++) {
        for (var m = 0u; m < 4u; m++) {
            let t = y + 16u * r;
            let p = x + 16u * m;
            if (t < valid && p < t) {
                let probe = probe_at(cell, t, p);
                table[pair(t, p)] = probe * (2.0 * z[r][m] + probe * v2[p]);
            }
        }
    }
    workgroupBarrier();
    if (lane < valid) {
        sum_rows(lane);
    }
    workgroupBarrier();
    for (var r = 0u; r < 4u; r++) {
        for (var m = 0u; m < 4u; m++) {
            let t = y + 16u * r;
            let p = x + 16u * m;
            if (t < valid && p < t) {
                scores[cell * PAIRS + pair(t, p)] = table[pair(t, p)];
                table[pair(t, p)] = probe_at(cell, t, p) * gram[r][m];
            }
        }
    }
    workgroupBarrier();
    if (lane < valid) {
        sum_rows(lane);
    }
    storageBarrier();
    workgroupBarrier();

    // 3. Every start p walks on until a score makes a boundary.
    if (lane < valid) {
        let p = lane;
        var n2 = steps[p].s2;
        var erased = 0.0;
        var next = valid;
        for (var t = p + 1u; t < valid; t++) {
            let step = steps[t];
            let row = cell * PAIRS + pair(t, p);
            let moved = moved_norm(step, n2, scores[row]);
            erased = erased_by(erased, step.decay, n2, moved);
            if (cancels(moved, erased)) {
                next = CHUNK + t;
                break;
            }
            let c = step.cross * table[pair(t, p)];
            let i = score(step.s2, moved, c);
            scores[row] = i;
            if (CAPACITY > 1u && decide(sequence, first + t, i)) {
                next = t;
                break;
            }
            n2 = joined_norm(moved, c, step.s2);
            erased = erased_joining(erased, c);
        }
        sums[cell * 5u * CHUNK + 4u * CHUNK + p] = f32(next);
    }
}
