// Follows the chain of states through the chunks of a sequence, carrying the open state (docs/algorithm.md, Boundary).
//
// Only the state entered with the chunk needs its matrix: c_t = e^{A_t} k_t' S v_t + R_t0. From its first boundary
// on, score's answers for starts inside the chunk are followed.
@group(0) @binding(3) var<storage, read> k: array<io>;                      // [B, T, G, Dk]
@group(0) @binding(4) var<storage, read> v: array<io>;                      // [B, T, H, Dv]
@group(0) @binding(5) var<storage, read> decay: array<f32>;                 // [B H, chunks, C]
@group(0) @binding(6) var<storage, read> scores: array<f32>;                // [B H, chunks, C (C - 1) / 2]
@group(0) @binding(7) var<storage, read> sums: array<f32>;                  // [B H, chunks, 3, C]
@group(0) @binding(8) var<storage, read_write> open: array<f32>;            // [B H, 2 Dk Dv + 1]
@group(0) @binding(9) var<storage, read_write> trace: array<vec2<u32>>;     // [B H, T] (score, event)

const BLOCK: u32 = 8u;                       // tokens of the entered state's part done at once

var<workgroup> keys: array<f32, KEY_DIM * BLOCK>;        // [Dk][BLOCK]
var<workgroup> partial: array<f32, 256u * 5u>;           // a quarter of the sums at a time, and the norm
var<workgroup> a: array<f32, CHUNK>;
var<workgroup> s2: array<f32, CHUNK>;
var<workgroup> begun: array<f32, CHUNK>;                 // R_t0
var<workgroup> products: array<f32, BLOCK + 1u>;         // k_t' S v_t of the block, and |S|^2
var<workgroup> n2: f32;
var<workgroup> erased: f32;

fn log_decay_of(t: u32) -> f32 {
    if (t == 0u) {
        return a[0];
    }
    return a[t] - a[t - 1u];
}

fn stage_keys(sequence: u32, first: u32, count: u32, lane: u32) {
    for (var e = lane; e < KEY_DIM * BLOCK; e += 256u) {
        let t = e / KEY_DIM;
        let d = e % KEY_DIM;
        var x = 0.0;
        if (t < count) {
            x = f32(k[key_at(sequence, first + t) + d]);
        }
        keys[d * BLOCK + t] = x;
    }
}

// Where measure_open keeps a token's key and the threads' parts of a sum.
fn put_key(d: u32, x: f32) {
    keys[d] = x;
}

fn staged_key(d: u32) -> f32 {
    return keys[d];
}

fn put_part(lane: u32, x: vec2<f32>) {
    partial[lane] = x.x;
    partial[256u + lane] = x.y;
}

fn part(lane: u32) -> vec2<f32> {
    return vec2<f32>(partial[lane], partial[256u + lane]);
}

fn write_strength(t: u32) -> f32 {
    return 1.0;
}

fn value(sequence: u32, t: u32, count: u32, first: u32, column: u32) -> f32 {
    if (t < count && column < VALUE_DIM) {
        return f32(v[value_at(sequence, first + t) + column]);
    }
    return 0.0;
}

// products[t] = k_t' S v_t for a block of tokens, products[BLOCK] = |S|^2.
fn read_entered(sequence: u32, first: u32, count: u32, lane: u32) {
    let column = lane % COLUMNS;
    var low = vec4<f32>();
    var high = vec4<f32>();
    var square = 0.0;
    if (column < VALUE_DIM) {
        let base = sequence * OPEN + column;
        for (var i = lane / COLUMNS; i < KEY_DIM; i += ROWS) {
            let s = open[base + i * VALUE_DIM];
            let at = i * BLOCK;
            low += s * vec4<f32>(keys[at], keys[at + 1u], keys[at + 2u], keys[at + 3u]);
            high += s * vec4<f32>(keys[at + 4u], keys[at + 5u], keys[at + 6u], keys[at + 7u]);
            square += s * s;
        }
    }
    for (var t = 0u; t < 4u; t++) {
        low[t] *= value(sequence, t, count, first, column);
        high[t] *= value(sequence, t + 4u, count, first, column);
    }
    for (var part = 0u; part < 2u; part++) {
        workgroupBarrier();
        for (var t = 0u; t < 4u; t++) {
            partial[t * 256u + lane] = select(high[t], low[t], part == 0u);
        }
        partial[1024u + lane] = square;
        workgroupBarrier();
        // 5 sums of 256: 32 threads each, then one.
        let t = lane / 32u;
        var sum = 0.0;
        if (t < 5u) {
            for (var m = 0u; m < unrolled(8u); m++) {
                sum += partial[t * 256u + lane % 32u + 32u * m];
            }
        }
        workgroupBarrier();
        if (t < 5u) {
            partial[t * 256u + lane % 32u] = sum;
        }
        workgroupBarrier();
        if (lane < 5u) {
            var total = 0.0;
            for (var m = 0u; m < unrolled(32u); m++) {
                total += partial[lane * 256u + m];
            }
            products[select(part * 4u + lane, BLOCK, lane == 4u)] = total;
        }
    }
    workgroupBarrier();
}

// One thread: the entered state's scalars through one block; stops at the first boundary, or where |S|^2 cancels.
fn scan_block(sequence: u32, first: u32, block: u32, count: u32, refresh: bool) {
    if (refresh) {
        n2 = products[BLOCK];
        erased = 0.0;
    }
    for (var i = 0u; i < count; i++) {
        let t = block + i;
        let kept = exp(2.0 * log_decay_of(t));
        let moved = n2 * kept;
        erased *= kept;
        if (cancels(moved, erased)) {
            cancelled_start = CHUNK;
            stop = t;
            return;
        }
        let c = exp(a[t]) * products[i] + begun[t];
        let score_t = score(s2[t], moved, c);
        entered[t] = score_t;
        if (CAPACITY > 1u && decide(sequence, first + t, score_t)) {
            stop = t;
            return;
        }
        n2 = joined_norm(moved, c, s2[t]);
        erased = erased_joining(erased, c);
    }
}

// The open state at the chunk's end: e^{A_C} S (if it goes on) plus its tokens from `from` on.
fn carry(sequence: u32, first: u32, from_token: u32, valid: u32, keep: bool, lane: u32) {
    let column = lane % COLUMNS;
    let base = sequence * OPEN + column;
    let total = a[valid - 1u];
    for (var block = from_token; block < valid; block += BLOCK) {
        let count = min(BLOCK, valid - block);
        workgroupBarrier();
        stage_keys(sequence, first + block, count, lane);
        workgroupBarrier();
        if (column < VALUE_DIM) {
            var low = vec4<f32>();
            var high = vec4<f32>();
            for (var t = 0u; t < 4u; t++) {
                if (t < count) {
                    low[t] = exp(total - a[block + t]) * value(sequence, t, count, first + block, column);
                }
                if (t + 4u < count) {
                    high[t] = exp(total - a[block + t + 4u]) * value(sequence, t + 4u, count, first + block, column);
                }
            }
            var scale = 1.0;
            if (block == from_token) {
                scale = exp(total);
            }
            for (var i = lane / COLUMNS; i < KEY_DIM; i += ROWS) {
                let at = i * BLOCK;
                var s = 0.0;
                if (keep || block > from_token) {
                    s = scale * open[base + i * VALUE_DIM];
                }
                s += dot(low, vec4<f32>(keys[at], keys[at + 1u], keys[at + 2u], keys[at + 3u]));
                s += dot(high, vec4<f32>(keys[at + 4u], keys[at + 5u], keys[at + 6u], keys[at + 7u]));
                open[base + i * VALUE_DIM] = s;
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
        if (lane < CHUNK) {
            a[lane] = decay[cell * CHUNK + lane];
            begun[lane] = sums[cell * 3u * CHUNK + lane];
            s2[lane] = sums[cell * 3u * CHUNK + CHUNK + lane];
            next[lane] = u32(sums[cell * 3u * CHUNK + 2u * CHUNK + lane]);
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
                stage_keys(sequence, first + block, count, lane);
                workgroupBarrier();
                read_entered(sequence, first + block, count, lane);
                if (lane == 0u) {
                    scan_block(sequence, first, block, count, block == 0u);
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
        if (lane < valid) {
            record(sequence, first, cell, lane);
        }

        // 3. The open state at the end.
        let last = workgroupUniformLoad(&carried_from);
        if (workgroupUniformLoad(&measured_to_end)) {
            take_workspace(sequence, lane);
        } else {
            carry(sequence, first, select(0u, last, last < CHUNK), valid, last == CHUNK, lane);
        }
        if (lane == 0u) {
            has_open = 1u;
        }
    }
    workgroupBarrier();
    if (lane == 0u) {
        open[sequence * OPEN + STATE] = f32(has_open);
    }
}
