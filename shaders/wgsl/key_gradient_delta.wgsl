// The gradients by queries and keys under the gated delta rule from all that they were made into, one group a chunk and 64
// columns: dQ_t = e^{A_t} dq~_t + sum_s x_ts k_s and dK_t = e^{A_t} (the gradient by e^{A_t} k_t) + sum_u x_ut q_u
// + sum_s y_ts k_s + sum_u y_ut k_u + sum_s w_ts dK~_s, with x by q.k, y by k.k and w how K~ holds k.
@group(0) @binding(3) var<storage, read> q: array<io>;                          // [B, T, G, Dk]
@group(0) @binding(4) var<storage, read> k: array<io>;                          // [B, T, G, Dk]
@group(0) @binding(5) var<storage, read> decay: array<f32>;                     // [B H, chunks, C]
@group(0) @binding(6) var<storage, read> solve_gradients: array<f32>;           // [B H, chunks, 6, C, C]
@group(0) @binding(7) var<storage, read> write_gradients: array<f32>;           // [B H, chunks, C, Dk] dK~
@group(0) @binding(8) var<storage, read> erase_gradients: array<f32>;           // [B H, chunks, C, Dk]
@group(0) @binding(9) var<storage, read_write> query_gradients: array<f32>;     // [B H, chunks, C, Dk] dq~, then dQ
@group(0) @binding(10) var<storage, read_write> key_gradients: array<f32>;      // [B H, chunks, C, Dk]

const TILES: u32 = (KEY_DIM + 63u) / 64u;
const QUERIES: u32 = 0u;
const KEYS: u32 = 1u;
const WRITES: u32 = 2u;

struct Tile {
    sequence: u32,
    cell: u32,
    first: u32,       // the chunk's first token
    valid: u32,       // its tokens
    column: u32,      // the tile's first column
}

fn factor(tile: Tile, which: u32, t: u32, d: u32) -> f32 {
    if (t >= tile.valid || d >= KEY_DIM) {
        return 0.0;
    }
    if (which == WRITES) {
        return write_gradients[(tile.cell * CHUNK + t) * KEY_DIM + d];
    }
    let at = key_at(tile.sequence, tile.first + t) + d;
    if (which == QUERIES) {
        return f32(q[at]);
    }
    return f32(k[at]);
}

// Adds triangle `which` times a factor, or its transpose times it. Where the diagonal is empty `strict` says so.
fn add(sum: ptr<function, Block>, tile: Tile, which: u32, turned: bool, strict: bool, right: u32, lane: u32) {
    for (var source = 0u; source < tile.valid; source += INNER) {
        workgroupBarrier();
        for (var e = lane; e < INNER * 64u; e += 256u) {
            // Neighbouring threads take neighbouring columns of the triangle.
            let i = select(e % INNER, e / 64u, turned);
            let line = select(e / INNER, e % 64u, turned);
            let t = select(line, source + i, turned);
            let s = select(source + i, line, turned);
            var x = 0.0;
            if (t < tile.valid && s <= t && !(strict && s == t)) {
                x = solve_gradients[solve_at(tile.cell, which, t, s)];
            }
            set_row(i, line, x);
            set_across(e / 64u, e % 64u, factor(tile, right, source + e / 64u, tile.column + e % 64u));
        }
        workgroupBarrier();
        add_block(sum, lane % 16u, lane / 16u);
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
    var queries = Block();
    add(&queries, tile, QUERY_SCORE, false, false, KEYS, lane);
    var keys = Block();
    add(&keys, tile, QUERY_SCORE, true, false, QUERIES, lane);
    add(&keys, tile, KEY_SCORE, false, true, KEYS, lane);
    add(&keys, tile, KEY_SCORE, true, true, KEYS, lane);
    add(&keys, tile, WRITTEN, false, false, WRITES, lane);
    for (var r = 0u; r < 4u; r++) {
        for (var m = 0u; m < 4u; m++) {
            let t = lane / 16u * 4u + r;
            let d = tile.column + 4u * (lane % 16u) + m;
            if (t < tile.valid && d < KEY_DIM) {
                let at = (tile.cell * CHUNK + t) * KEY_DIM + d;
                let seen = exp(decay[tile.cell * CHUNK + t]);
                query_gradients[at] = seen * query_gradients[at] + queries[r][m];
                key_gradients[at] = seen * erase_gradients[at] + keys[r][m];
            }
        }
    }
}
