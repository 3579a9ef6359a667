// What reaches the queries, and the read weights, from the states that their chunk was entered with, one tiled product a
// state: sum_i lambda_{t, rank_t(i)} e^{A_t} S_i do_t, and q_t' of each term without its weight. One group a chunk and 64
// rows of the states; with q~_t instead of e^{A_t} q_t for the delta rule.
@group(0) @binding(5) var<storage, read> d_o: array<f32>;                       // [B, T, H, Dv]
@group(0) @binding(6) var<storage, read> entries: array<vec2<u32>>;             // [B H, chunks + 1, 1 + K]
@group(0) @binding(7) var<storage, read> versions: array<io>;                   // [B H, chunks, K, Dk, Dv] by place
@group(0) @binding(8) var<storage, read> read_weights: array<f32>;              // [B H, chunks, C, K]
@group(0) @binding(9) var<storage, read_write> query_gradients: array<f32>;     // [B H, chunks, C, Dk]
@group(0) @binding(10) var<storage, read_write> dots: array<f32>;               // [B H, chunks, DOTS]

var<workgroup> scales: array<f32, 64>;
var<workgroup> weights: array<f32, 64>;

fn stage(sequence: u32, first: u32, valid: u32, base: u32, row: u32, column: u32, lane: u32) {
    for (var e = lane; e < INNER * 64u; e += 256u) {
        let i = e % INNER;
        let line = e / INNER;
        let c = column + i;
        var output = 0.0;
        if (line < valid && c < VALUE_DIM) {
            output = d_o[value_at(sequence, first + line) + c];
        }
        set_row(i, line, output);
        var x = 0.0;
        if (row + line < KEY_DIM && c < VALUE_DIM) {
            x = f32(versions[base + (row + line) * VALUE_DIM + c]);
        }
        set_across(i, line, x);
    }
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let at = group_index(group);
    let part = at % KEY_TILES;
    let chunk = at / KEY_TILES % params.chunks;
    let sequence = at / KEY_TILES / params.chunks;
    if (sequence >= params.sequences) {
        return;
    }
    let row = part * 64u;
    let entry = entry_at(sequence, chunk);
    let entered = entries[entry].x;
    let valid = chunk_valid(sequence, chunk);
    let first = chunk_token(chunk);
    let cell = cell_of(sequence, chunk);
    let x = lane % 16u;
    let y = lane / 16u;
    var queries: Block;
    for (var r = 0u; r < 4u; r++) {
        for (var m = 0u; m < 4u; m++) {
            let t = 4u * y + r;
            let d = row + 4u * x + m;
            if (t < valid && d < KEY_DIM) {
                queries[r][m] = query(sequence, chunk, t, d);
            }
        }
    }
    var sum: Block;
    for (var i = 0u; i < entered; i++) {
        let record = entries[entry + 1u + i];
        let base = (((record.x >> 8u) + sequence * params.segment_chunks) * CAPACITY + (record.x & 255u)) * STATE;
        if (lane < valid) {
            scales[lane] = entered_scale(cell, lane, bitcast<f32>(record.y));
            weights[lane] = read_weights[(cell * CHUNK + lane) * CAPACITY + i];
        }
        var reads: Block;
        for (var column = 0u; column < VALUE_DIM; column += INNER) {
            workgroupBarrier();
            stage(sequence, first, valid, base, row, column, lane);
            workgroupBarrier();
            add_block(&reads, x, y);
        }
        for (var r = 0u; r < 4u; r++) {
            let t = 4u * y + r;
            if (t < valid) {
                let read = scales[t] * reads[r];
                sum[r] += weights[t] * read;
                partials[t * 17u + x] = dot(queries[r], read);
            }
        }
        workgroupBarrier();
        if (lane < valid) {
            dots[read_dot_at(cell, part, lane, i)] = row_sum(lane);
        }
    }
    for (var r = 0u; r < 4u; r++) {
        for (var m = 0u; m < 4u; m++) {
            let t = 4u * y + r;
            let d = row + 4u * x + m;
            if (t < valid && d < KEY_DIM) {
                query_gradients[(cell * CHUNK + t) * KEY_DIM + d] = sum[r][m];
            }
        }
    }
}
