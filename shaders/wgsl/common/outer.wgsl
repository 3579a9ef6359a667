// Sums of outer products over a chunk's tokens, one for each entered state: lambda_{t, rank_t(i)} query_t do_t', where the
// query is what reads entered states.
@group(0) @binding(5) var<storage, read> d_o: array<columns>;                   // [B, T, H, Dv]
@group(0) @binding(6) var<storage, read> read_weights: array<f32>;              // [B H, chunks, C, K]
@group(0) @binding(7) var<storage, read> entries: array<vec2<u32>>;             // [B H, chunks + 1, 1 + K]

// A group owns a tile of every state, a thread one value of it: four columns, or one where Dv is not a multiple of four.
const ROW: u32 = VALUE_DIM / WIDTH;              // values of a row
const ACROSS: u32 = select(8u, 4u, ROW <= 4u);
const DOWN: u32 = 128u / ACROSS;
const TILES_DOWN: u32 = (KEY_DIM + DOWN - 1u) / DOWN;
const TILES_ACROSS: u32 = (ROW + ACROSS - 1u) / ACROSS;
const FOURS: u32 = min(8u, (CAPACITY + 3u) / 4u);    // states summed at once, by four
const PART: u32 = 32u;                               // tokens staged at once

var<workgroup> weights: array<vec4<f32>, PART * FOURS>;      // lambda e^{A_t} of four states
var<workgroup> queries: array<f32, PART * DOWN>;             // rows of the tile
var<workgroup> outputs: array<columns, PART * ACROSS>;       // columns of the tile

struct Thread {
    sequence: u32,
    first_row: u32,      // of the group's tile
    first_column: u32,
    down: u32,           // the thread's value in the tile
    across: u32,
    live: bool,          // it exists
    element: u32,        // where it lies in a state
}

alias Sums = array<columns, FOURS * 4u>;

fn thread_of(sequence: u32, tile: u32, lane: u32) -> Thread {
    let first_row = tile / TILES_ACROSS * DOWN;
    let first_column = tile % TILES_ACROSS * ACROSS;
    let row = first_row + lane / ACROSS;
    let column = first_column + lane % ACROSS;
    let live = row < KEY_DIM && column < ROW;
    return Thread(sequence, first_row, first_column, lane / ACROSS, lane % ACROSS, live, row * ROW + column);
}

// Lays out the tokens from `part` on for the four-state groups from state `first` on.
fn stage(thread: Thread, chunk: u32, part: u32, valid: u32, first: u32, lane: u32) {
    let token = chunk_token(chunk);
    let cell = cell_of(thread.sequence, chunk);
    for (var e = lane; e < PART * FOURS * 4u; e += 128u) {
        let t = part + e / (FOURS * 4u);
        let i = first + e % (FOURS * 4u);
        var weight = 0.0;
        if (t < valid && i < CAPACITY) {
            weight = entered_scale(cell, t, 0.0) * read_weights[(cell * CHUNK + t) * CAPACITY + i];
        }
        weights[e / 4u][e % 4u] = weight;
    }
    for (var e = lane; e < PART * DOWN; e += 128u) {
        let t = part + e / DOWN;
        let row = thread.first_row + e % DOWN;
        var x = 0.0;
        if (t < valid && row < KEY_DIM) {
            x = query(thread.sequence, chunk, t, row);
        }
        queries[e] = x;
    }
    for (var e = lane; e < PART * ACROSS; e += 128u) {
        let t = part + e / ACROSS;
        let column = thread.first_column + e % ACROSS;
        var output = columns();
        if (t < valid && column < ROW) {
            output = d_o[token_head(thread.sequence, token + t) * ROW + column];
        }
        outputs[e] = output;
    }
}

// Adds the chunk's sums for the entered states from `first` on.
fn add_outer(sum: ptr<function, Sums>, thread: Thread, chunk: u32, valid: u32, first: u32, lane: u32) {
    for (var part = 0u; part < valid; part += PART) {
        workgroupBarrier();
        stage(thread, chunk, part, valid, first, lane);
        workgroupBarrier();
        for (var t = 0u; t < min(PART, valid - part); t++) {
            let x = queries[t * DOWN + thread.down] * outputs[t * ACROSS + thread.across];
            for (var four = 0u; four < FOURS; four++) {
                let weight = weights[t * FOURS + four];
                (*sum)[4u * four] += weight.x * x;
                (*sum)[4u * four + 1u] += weight.y * x;
                (*sum)[4u * four + 2u] += weight.z * x;
                (*sum)[4u * four + 3u] += weight.w * x;
            }
        }
    }
}
