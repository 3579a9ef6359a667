// boundary_scan for the gated delta rule: follows the chain of states through the chunks of a sequence, carrying the
// open state (docs/algorithm.md, Boundary).
//
// The state entered with the chunk is read with delta_probe's keys: w_t = k_t' S before token t's transition. From its
// first boundary on, score_delta's answers for starts inside the chunk are followed.
@group(0) @binding(3) var<storage, read> k: array<io>;                      // [B, T, G, Dk]
@group(0) @binding(4) var<storage, read> v: array<io>;                      // [B, T, H, Dv]
@group(0) @binding(5) var<storage, read> write_keys: array<f32>;            // [B H, chunks, C, Dk]
@group(0) @binding(6) var<storage, read> scores: array<f32>;                // [B H, chunks, C (C - 1) / 2]
@group(0) @binding(7) var<storage, read> sums: array<f32>;                  // [B H, chunks, 5, C]
@group(0) @binding(8) var<storage, read_write> probe_keys: array<f32>;      // [B H, chunks, C, Dk + Dv]; w_t takes its last part's place
@group(0) @binding(9) var<storage, read_write> open: array<f32>;            // [B H, 2 Dk Dv + 1]
@group(0) @binding(10) var<storage, read_write> trace: array<vec2<u32>>;    // [B H, T] (score, event)

const BLOCK: u32 = 8u;                       // tokens done at once

var<workgroup> stage: array<vec4<f32>, 512>;             // keys [Dk][BLOCK], then each thread's part of w [256][BLOCK]
var<workgroup> partial: array<vec3<f32>, 256>;           // w.v, |w|^2 and |S|^2, 32 parts a token
var<workgroup> products: array<vec3<f32>, BLOCK>;        // their sums; |S|^2 still in BLOCK parts
var<workgroup> a: array<f32, CHUNK>;
var<workgroup> beta: array<f32, CHUNK>;
var<workgroup> k2: array<f32, CHUNK>;
var<workgroup> s2: array<f32, CHUNK>;
var<workgroup> n2: f32;
var<workgroup> erased: f32;

fn log_decay_of(t: u32) -> f32 {
    if (t == 0u) {
        return a[0];
    }
    return a[t] - a[t - 1u];
}

// Where measure_open keeps a token's key and the threads' parts of a sum.
fn put_key(d: u32, x: f32) {
    stage[d] = vec4<f32>(x);
}

fn staged_key(d: u32) -> f32 {
    return stage[d].x;
}

fn put_part(lane: u32, x: vec2<f32>) {
    partial[lane] = vec3<f32>(x, 0.0);
}

fn part(lane: u32) -> vec2<f32> {
    return partial[lane].xy;
}

fn write_strength(t: u32) -> f32 {
    return beta[t];
}

fn probe_row(cell: u32, t: u32) -> u32 {
    return (cell * CHUNK + t) * (KEY_DIM + VALUE_DIM);
}

// w_t = k_t' S for a block of tokens, and the products with it.
fn read_entered(sequence: u32, first: u32, cell: u32, block: u32, count: u32, lane: u32) {
    for (var e = lane; e < KEY_DIM * BLOCK; e += 256u) {
        let t = e / KEY_DIM;
        let d = e % KEY_DIM;
        var x = 0.0;
        if (t < count) {
            x = probe_keys[probe_row(cell, block + t) + d];
        }
        stage[d * 2u + t / 4u][t % 4u] = x;
    }
    workgroupBarrier();
    let column = lane % COLUMNS;
    var low = vec4<f32>();
    var high = vec4<f32>();
    var square = 0.0;
    if (column < VALUE_DIM) {
        let base = sequence * OPEN + column;
        for (var i = lane / COLUMNS; i < KEY_DIM; i += ROWS) {
            let s = open[base + i * VALUE_DIM];
            low += s * stage[2u * i];
            high += s * stage[2u * i + 1u];
            square += s * s;
        }
    }
    workgroupBarrier();
    stage[2u * lane] = low;
    stage[2u * lane + 1u] = high;
    workgroupBarrier();
    // 32 threads a token.
    let t = lane / 32u;
    var sum = vec3<f32>(0.0, 0.0, square);
    if (t < count) {
        let row = probe_row(cell, block + t) + KEY_DIM;
        let values = value_at(sequence, first + block + t);
        for (var c = lane % 32u; c < VALUE_DIM; c += 32u) {
            var w = probe_keys[row + c];
            for (var r = 0u; r < unrolled(ROWS); r++) {
                w += stage[2u * (r * COLUMNS + c) + t / 4u][t % 4u];
            }
            probe_keys[row + c] = w;
            sum += vec3<f32>(w * f32(v[values + c]), w * w, 0.0);
        }
    }
    partial[lane] = sum;
    workgroupBarrier();
    if (lane < BLOCK) {
        var total = vec3<f32>();
        for (var m = 0u; m < unrolled(32u); m++) {
            total += partial[lane * 32u + m];
        }
        products[lane] = total;
    }
    workgroupBarrier();
}

// One thread: the entered state's scalars through one block; stops at the first boundary, or where |S|^2 cancels.
fn scan_block(sequence: u32, first: u32, block: u32, count: u32) {
    if (block == 0u) {
        n2 = 0.0;
        for (var i = 0u; i < BLOCK; i++) {
            n2 += products[i].z;
        }
        erased = 0.0;
    }
    for (var i = 0u; i < count; i++) {
        let t = block + i;
        let step = step_of(log_decay_of(t), beta[t], k2[t], s2[t]);
        let moved = moved_norm(step, n2, products[i].y);
        erased = erased_by(erased, step.decay, n2, moved);
        if (cancels(moved, erased)) {
            cancelled_start = CHUNK;
            stop = t;
            return;
        }
        let c = step.cross * products[i].x;
        let score_t = score(step.s2, moved, c);
        entered[t] = score_t;
        if (CAPACITY > 1u && decide(sequence, first + t, score_t)) {
            stop = t;
            return;
        }
        n2 = joined_norm(moved, c, step.s2);
        erased = erased_joining(erased, c);
    }
}

// What token t adds to the open state at the chunk's end, but for its values: e^{A_C - A_t} k_t if the entered state
// goes on, K~_t for one that began in the chunk.
fn carry_key(sequence: u32, first: u32, cell: u32, t: u32, d: u32, goes_on: bool, total: f32) -> f32 {
    if (goes_on) {
        return exp(total - a[t]) * f32(k[key_at(sequence, first + t) + d]);
    }
    return write_keys[(cell * CHUNK + t) * KEY_DIM + d];
}

// And its values: beta (v - e^g w), v.
fn carry_value(sequence: u32, first: u32, cell: u32, t: u32, column: u32, goes_on: bool) -> f32 {
    let value = f32(v[value_at(sequence, first + t) + column]);
    if (goes_on) {
        return beta[t] * (value - exp(log_decay_of(t)) * probe_keys[probe_row(cell, t) + KEY_DIM + column]);
    }
    return value;
}

// The open state at the chunk's end: e^{A_C} S (if it goes on) plus its tokens from `from_token` on.
fn carry(sequence: u32, first: u32, cell: u32, from_token: u32, valid: u32, goes_on: bool, lane: u32) {
    let column = lane % COLUMNS;
    let base = sequence * OPEN + column;
    let total = a[valid - 1u];
    for (var block = from_token; block < valid; block += BLOCK) {
        let count = min(BLOCK, valid - block);
        workgroupBarrier();
        for (var e = lane; e < KEY_DIM * BLOCK; e += 256u) {
            let t = e / KEY_DIM;
            let d = e % KEY_DIM;
            var key = 0.0;
            if (t < count) {
                key = carry_key(sequence, first, cell, block + t, d, goes_on, total);
            }
            stage[d * 2u + t / 4u][t % 4u] = key;
        }
        workgroupBarrier();
        if (column < VALUE_DIM) {
            var low = vec4<f32>();
            var high = vec4<f32>();
            for (var t = 0u; t < 4u; t++) {
                if (t < count) {
                    low[t] = carry_value(sequence, first, cell, block + t, column, goes_on);
                }
                if (t + 4u < count) {
                    high[t] = carry_value(sequence, first, cell, block + t + 4u, column, goes_on);
                }
            }
            let scale = select(1.0, exp(total), block == from_token);
            for (var i = lane / COLUMNS; i < KEY_DIM; i += ROWS) {
                var s = 0.0;
                if (goes_on || block > from_token) {
                    s = scale * open[base + i * VALUE_DIM];
                }
                open[base + i * VALUE_DIM] = s + dot(low, stage[2u * i]) + dot(high, stage[2u * i + 1u]);
            }
        }
    }
    workgroupBarrier();
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let sequence = group_index(group);
    if (sequence >= params.sequences) {
        return;
    }
    if (lane == 0u) {
        has_open = u32(open[sequence * OPEN + STATE]);
    }
    for (var chunk = 0u; chunk < params.chunks; chunk++) {
        let valid = chunk_valid(sequence, chunk);
        if (valid == 0u) {
            break;
        }
        let first = chunk_token(chunk);
        let cell = cell_of(sequence, chunk);
        workgroupBarrier();
        if (lane < valid) {
            let row = cell * 5u * CHUNK + lane;
            a[lane] = sums[row];
            beta[lane] = sums[row + CHUNK];
            k2[lane] = sums[row + 2u * CHUNK];
            s2[lane] = sums[row + 3u * CHUNK];
            next[lane] = u32(sums[row + 4u * CHUNK]);
        }
        if (lane == 0u) {
            begin_chain(valid);
            measured_to_end = false;
        }
        let going_on = workgroupUniformLoad(&has_open) != 0u;

        // 1. The entered state up to its first boundary.
        if (going_on) {
            for (var block = 0u; block < valid; block += BLOCK) {
                let count = min(BLOCK, valid - block);
                read_entered(sequence, first, cell, block, count, lane);
                if (lane == 0u) {
                    scan_block(sequence, first, block, count);
                }
                if (workgroupUniformLoad(&stop) < valid) {
                    break;
                }
            }
        } else if (lane == 0u) {
            stop = 0u;
        }

        // 2. The chain of starts inside the chunk.
        resolve(sequence, first, valid, lane);
        storageBarrier();
        workgroupBarrier();
        if (lane < valid) {
            record(sequence, first, cell, lane);
        }

        // 3. The open state at the end.
        let last = workgroupUniformLoad(&carried_from);
        if (workgroupUniformLoad(&measured_to_end)) {
            take_workspace(sequence, lane);
        } else {
            carry(sequence, first, cell, select(0u, last, last < CHUNK), valid, last == CHUNK, lane);
        }
        if (lane == 0u) {
            has_open = select(1u, u32(MEASURED), measured_to_end);
        }
    }
    workgroupBarrier();
    if (lane == 0u) {
        open[sequence * OPEN + STATE] = f32(has_open);
    }
}
