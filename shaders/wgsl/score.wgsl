// Scores for every place a state could begin in a chunk, all chunks at once (docs/algorithm.md, Score).
//
// With G_tj = (k_t.k_j)(v_t.v_j) the inner product of token t with a state begun at p is the row sum
// R_tp = sum_{p <= j < t} e^{A_t - A_j} G_tj. Each candidate start p then walks its own scalars until the first
// boundary, or until |S|^2 cancels, so boundary_scan only has to follow the chain of starts.
@group(0) @binding(3) var<storage, read> k: array<io>;               // [B, T, G, Dk]
@group(0) @binding(4) var<storage, read> v: array<io>;               // [B, T, H, Dv]
@group(0) @binding(5) var<storage, read> decay: array<f32>;          // [B H, chunks, C]
@group(0) @binding(6) var<storage, read> trace: array<vec2<u32>>;    // [B H, T] (score, event)
@group(0) @binding(7) var<storage, read_write> scores: array<f32>;   // [B H, chunks, C (C - 1) / 2] score of t against a state begun at p
@group(0) @binding(8) var<storage, read_write> sums: array<f32>;     // [B H, chunks, 3, C] R_t0, |s_t|^2, next boundary after p; C + t where |S|^2 cancelled at t

const TILE: u32 = 16u;       // key or value columns staged at once
const PITCH: u32 = 17u;      // their row length in workgroup memory, odd to spread the banks

var<workgroup> rows: array<f32, CHUNK * PITCH>;
var<workgroup> gram: array<f32, PAIRS + 1u>;
var<workgroup> a: array<f32, CHUNK>;
var<workgroup> s2: array<f32, CHUNK>;

fn stage(values: bool, sequence: u32, first: u32, valid: u32, column: u32, lane: u32) {
    let width = select(KEY_DIM, VALUE_DIM, values);
    for (var e = lane; e < CHUNK * TILE; e += 256u) {
        let t = e / TILE;
        let d = column + e % TILE;
        var x = 0.0;
        if (t < valid && d < width) {
            if (values) {
                x = f32(v[value_at(sequence, first + t) + d]);
            } else {
                x = f32(k[key_at(sequence, first + t) + d]);
            }
        }
        rows[t * PITCH + e % TILE] = x;
    }
}

fn row(t: u32, d: u32) -> f32 {
    return rows[min(t, CHUNK - 1u) * PITCH + d];
}

// Adds the products of 4 x 4 rows, (16 i + y) by (16 m + x), over the staged columns.
fn accumulate(sum: ptr<function, array<vec4<f32>, 4>>, x: u32, y: u32) {
    for (var d = 0u; d < unrolled(TILE); d++) {
        let across = vec4<f32>(row(x, d), row(x + 16u, d), row(x + 32u, d), row(x + 48u, d));
        for (var i = 0u; i < 4u; i++) {
            (*sum)[i] += row(y + 16u * i, d) * across;
        }
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
    if (lane < CHUNK) {
        a[lane] = decay[cell * CHUNK + lane];
    }

    // 1. The Gram products of keys and of values.
    var keys = array<vec4<f32>, 4>();
    for (var column = 0u; column < KEY_DIM; column += TILE) {
        workgroupBarrier();
        stage(false, sequence, first, valid, column, lane);
        workgroupBarrier();
        accumulate(&keys, x, y);
    }
    var values = array<vec4<f32>, 4>();
    for (var column = 0u; column < VALUE_DIM; column += TILE) {
        workgroupBarrier();
        stage(true, sequence, first, valid, column, lane);
        workgroupBarrier();
        accumulate(&values, x, y);
    }
    for (var i = 0u; i < 4u; i++) {
        for (var m = 0u; m < 4u; m++) {
            let t = y + 16u * i;
            let j = x + 16u * m;
            let product = keys[i][m] * values[i][m];
            if (t < CHUNK && j < t) {
                gram[pair(t, j)] = product;
            }
            if (t < CHUNK && j == t) {
                s2[t] = product;
            }
        }
    }
    workgroupBarrier();

    // 2. Row sums from the right: gram[t, p] becomes R_tp.
    if (lane < CHUNK) {
        let t = lane;
        var sum = 0.0;
        for (var p = t; p > 0u; p--) {
            sum += exp(a[t] - a[p - 1u]) * gram[pair(t, p - 1u)];
            gram[pair(t, p - 1u)] = sum;
        }
        sums[cell * 3u * CHUNK + t] = sum;
        sums[cell * 3u * CHUNK + CHUNK + t] = s2[t];
    }
    workgroupBarrier();

    // 3. Every start p walks on until a score makes a boundary; gram[t, p] becomes the score.
    if (lane < valid) {
        let p = lane;
        var n2 = s2[p];
        var erased = 0.0;
        var next = valid;
        for (var t = p + 1u; t < valid; t++) {
            let kept = exp(2.0 * (a[t] - a[t - 1u]));
            n2 *= kept;
            erased *= kept;
            if (cancels(n2, erased)) {
                next = CHUNK + t;
                break;
            }
            let c = gram[pair(t, p)];
            let i = score(s2[t], n2, c);
            scores[cell * PAIRS + pair(t, p)] = i;
            if (CAPACITY > 1u && decide(sequence, first + t, i)) {
                next = t;
                break;
            }
            n2 = joined_norm(n2, c, s2[t]);
            erased = erased_joining(erased, c);
        }
        sums[cell * 3u * CHUNK + 2u * CHUNK + p] = f32(next);
    }
}
