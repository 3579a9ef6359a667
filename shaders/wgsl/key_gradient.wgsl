// The gradients by queries and keys from the chunk's own scores, on top of what came through the states:
// dQ_t += sum_{s <= t} score_ts k_s and dK_s += sum_{t >= s} score_ts q_t. One group a chunk and 64 columns.
@group(0) @binding(3) var<storage, read> q: array<io>;                          // [B, T, G, Dk]
@group(0) @binding(4) var<storage, read> k: array<io>;                          // [B, T, G, Dk]
@group(0) @binding(5) var<storage, read> mix_gradients: array<f32>;             // [B H, chunks, 3, C, C]
@group(0) @binding(6) var<storage, read_write> query_gradients: array<f32>;     // [B H, chunks, C, Dk]
@group(0) @binding(7) var<storage, read_write> key_gradients: array<f32>;       // [B H, chunks, C, Dk]

const TILES: u32 = (KEY_DIM + 63u) / 64u;

struct Tile {
    sequence: u32,
    cell: u32,
    first: u32,       // the chunk's first token
    valid: u32,       // its tokens
    column: u32,      // the tile's first column
}

// Scores of every token with the keys from `source` on.
fn stage_keys(tile: Tile, source: u32, lane: u32) {
    for (var e = lane; e < INNER * 64u; e += 256u) {
        let t = e / INNER;
        let s = source + e % INNER;
        var score = 0.0;
        if (t < tile.valid && s <= t) {
            score = mix_gradients[mix_at(tile.cell, SCORE_MIX, t, s)];
        }
        set_row(e % INNER, t, score);
        let d = tile.column + e % 64u;
        let j = source + e / 64u;
        var key = 0.0;
        if (j < tile.valid && d < KEY_DIM) {
            key = f32(k[key_at(tile.sequence, tile.first + j) + d]);
        }
        set_across(e / 64u, e % 64u, key);
    }
}

// Scores of the queries from `source` on with every token.
fn stage_queries(tile: Tile, source: u32, lane: u32) {
    for (var e = lane; e < INNER * 64u; e += 256u) {
        let t = source + e / 64u;
        let line = e % 64u;
        var score = 0.0;
        if (t < tile.valid && line <= t) {
            score = mix_gradients[mix_at(tile.cell, SCORE_MIX, t, line)];
        }
        set_row(e / 64u, line, score);
        let d = tile.column + line;
        var query = 0.0;
        if (t < tile.valid && d < KEY_DIM) {
            query = f32(q[key_at(tile.sequence, tile.first + t) + d]);
        }
        set_across(e / 64u, line, query);
    }
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let at = group_index(group);
    let chunk = at / TILES % params.chunks;
    let sequence = at / TILES / params.chunks;
    if (sequence >= params.sequences) {
        return;
    }
    let tile = Tile(sequence, cell_of(sequence, chunk), chunk_token(chunk), chunk_valid(sequence, chunk), at % TILES * 64u);
    let x = lane % 16u;
    let y = lane / 16u;
    var queries = Block();
    for (var source = 0u; source < tile.valid; source += INNER) {
        workgroupBarrier();
        stage_keys(tile, source, lane);
        workgroupBarrier();
        add_block(&queries, x, y);
    }
    var keys = Block();
    for (var source = 0u; source < tile.valid; source += INNER) {
        workgroupBarrier();
        stage_queries(tile, source, lane);
        workgroupBarrier();
        add_block(&keys, x, y);
    }
    for (var r = 0u; r < 4u; r++) {
        for (var m = 0u; m < 4u; m++) {
            let t = 4u * y + r;
            let d = tile.column + 4u * x + m;
            if (t < tile.valid && d < KEY_DIM) {
                let at = (tile.cell * CHUNK + t) * KEY_DIM + d;
                query_gradients[at] += queries[r][m];
                key_gradients[at] += keys[r][m];
            }
        }
    }
}
