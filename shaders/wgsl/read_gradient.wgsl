// What reaches the queries, and the read weights, from the states that their chunk was entered with, one tiled product a
// state: sum_i lambda_{t, rank_t(i)} e^{A_t} S_i do_t, and q_t' of each term without its weight. One group a chunk and 64
// rows of the states, or 128 where there are more; with q~_t instead of e^{A_t} q_t for the delta rule.
@group(0) @binding(5) var<storage, read> d_o: array<f32>;                       // [B, T, H, Dv]
@group(0) @binding(6) var<storage, read> entries: array<vec2<u32>>;             // [B H, chunks + 1, 1 + K]
@group(0) @binding(7) var<storage, read> versions: array<io>;                   // [B H, chunks, K, Dk, Dv] by place
@group(0) @binding(8) var<storage, read> read_weights: array<f32>;              // [B H, chunks, C, K]
@group(0) @binding(9) var<storage, read_write> query_gradients: array<f32>;     // [B H, chunks, C, Dk]
@group(0) @binding(10) var<storage, read_write> dots: array<f32>;               // [B H, chunks, DOTS]

const HALVES: u32 = READ_ROWS / 64u;    // blocks of 64 rows of the states that a group takes

var<workgroup> lower: array<vec4<f32>, INNER * LINE>;    // [INNER][rows 64 to 127 of the tile]
var<workgroup> scales: array<f32, 64>;
var<workgroup> weights: array<f32, 64>;

alias Blocks = array<Block, HALVES>;

// Columns of a state's row, 0 beyond its end.
fn element(base: u32, row: u32, column: u32) -> f32 {
    if (row < KEY_DIM && column < VALUE_DIM) {
        return f32(versions[base + row * VALUE_DIM + column]);
    }
    return 0.0;
}

fn stage(sequence: u32, first: u32, valid: u32, base: u32, row: u32, column: u32, lane: u32) {
    for (var e = lane; e < INNER * 64u; e += 256u) {
        let i = e % INNER;
        let line = e / INNER;
        var output = 0.0;
        if (line < valid && column + i < VALUE_DIM) {
            output = d_o[value_at(sequence, first + line) + column + i];
        }
        set_row(i, line, output);
        set_across(i, line, element(base, row + line, column + i));
        if (HALVES > 1u) {
            lower[i * LINE + line / 4u][line % 4u] = element(base, row + 64u + line, column + i);
        }
    }
}

fn add_blocks(sum: ptr<function, Blocks>, x: u32, y: u32) {
    for (var i = 0u; i < unrolled(INNER); i++) {
        let a = rows[i * LINE + y];
        let b = across[i * LINE + x];
        (*sum)[0][0] += a.x * b;
        (*sum)[0][1] += a.y * b;
        (*sum)[0][2] += a.z * b;
        (*sum)[0][3] += a.w * b;
        if (HALVES > 1u) {
            let c = lower[i * LINE + x];
            (*sum)[HALVES - 1u][0] += a.x * c;
            (*sum)[HALVES - 1u][1] += a.y * c;
            (*sum)[HALVES - 1u][2] += a.z * c;
            (*sum)[HALVES - 1u][3] += a.w * c;
        }
    }
}

// The tile's values of the queries of the thread's tokens.
fn queries_of(sequence: u32, chunk: u32, valid: u32, row: u32, x: u32, y: u32) -> Blocks {
    var queries = Blocks();
    for (var half = 0u; half < HALVES; half++) {
        for (var r = 0u; r < 4u; r++) {
            for (var m = 0u; m < 4u; m++) {
                let t = 4u * y + r;
                let d = row + 64u * half + 4u * x + m;
                if (t < valid && d < KEY_DIM) {
                    queries[half][r][m] = query(sequence, chunk, t, d);
                }
            }
        }
    }
    return queries;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let at = group_index(group);
    let part = at % READ_TILES;
    let chunk = at / READ_TILES % params.chunks;
    let sequence = at / READ_TILES / params.chunks;
    if (sequence >= params.sequences) {
        return;
    }
    let row = part * READ_ROWS;
    let entry = entry_at(sequence, chunk);
    let entered = entries[entry].x;
    let valid = chunk_valid(sequence, chunk);
    let first = chunk_token(chunk);
    let cell = cell_of(sequence, chunk);
    let x = lane % 16u;
    let y = lane / 16u;
    let queries = queries_of(sequence, chunk, valid, row, x, y);
    var sum = Blocks();
    for (var i = 0u; i < entered; i++) {
        let record = entries[entry + 1u + i];
        let base = (((record.x >> 8u) + sequence * params.segment_chunks) * CAPACITY + (record.x & 255u)) * STATE;
        if (lane < 64u) {
            scales[lane] = 0.0;
            weights[lane] = 0.0;
            if (lane < valid) {
                scales[lane] = entered_scale(cell, lane, bitcast<f32>(record.y));
                weights[lane] = read_weights[(cell * CHUNK + lane) * CAPACITY + i];
            }
        }
        var reads = Blocks();
        for (var column = 0u; column < VALUE_DIM; column += INNER) {
            workgroupBarrier();
            stage(sequence, first, valid, base, row, column, lane);
            workgroupBarrier();
            add_blocks(&reads, x, y);
        }
        var against = vec4<f32>();
        for (var r = 0u; r < 4u; r++) {
            let scale = scales[4u * y + r];
            let weight = weights[4u * y + r];
            for (var half = 0u; half < HALVES; half++) {
                let read = scale * reads[half][r];
                sum[half][r] += weight * read;
                against[r] += dot(queries[half][r], read);
            }
        }
        // Sums over the 16 threads of a row, where the rows lay.
        workgroupBarrier();
        rows[x * LINE + y] = against;
        workgroupBarrier();
        if (lane < valid) {
            var dot_sum = 0.0;
            for (var thread = 0u; thread < 16u; thread++) {
                dot_sum += rows[thread * LINE + lane / 4u][lane % 4u];
            }
            dots[read_dot_at(cell, part, lane, i)] = dot_sum;
        }
    }
    for (var half = 0u; half < HALVES; half++) {
        for (var r = 0u; r < 4u; r++) {
            for (var m = 0u; m < 4u; m++) {
                let t = 4u * y + r;
                let d = row + 64u * half + 4u * x + m;
                if (t < valid && d < KEY_DIM) {
                    query_gradients[(cell * CHUNK + t) * KEY_DIM + d] = sum[half][r][m];
                }
            }
        }
    }
}
