// The gradients by the states, from the segment's last chunk to its first: what reaches a state that a chunk was entered
// with is what reaches the final state that absorbed it, decayed, and what the chunk's tokens read of it,
// dS_i = e^{A_C} dS'_{slot(i)} + sum_t lambda_{t, rank_t(i)} e^{A_t} q_t do_t'.
//
// Merging is a sum, so its gradient is a copy. States are counted in time order here; places do not matter.
@group(0) @binding(3) var<storage, read> q: array<io>;                          // [B, T, G, Dk]
@group(0) @binding(4) var<storage, read> d_o: array<columns>;                   // [B, T, H, Dv]
@group(0) @binding(5) var<storage, read> decay: array<f32>;                     // [B H, chunks, C]
@group(0) @binding(6) var<storage, read> slots: array<vec4<u32>>;               // [B H, chunks, C]
@group(0) @binding(7) var<storage, read> entries: array<vec2<u32>>;             // [B H, chunks + 1, 1 + K]
@group(0) @binding(8) var<storage, read> read_weights: array<f32>;              // [B H, chunks, C, K]
@group(0) @binding(9) var<storage, read_write> d_states: array<columns>;        // [B H, K, Dk, Dv] behind the segment, then before it
@group(0) @binding(10) var<storage, read_write> state_gradients: array<columns>;// [B H, chunks, K, Dk, Dv] at each chunk's end

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

fn state_at(thread: Thread, chunk: u32, i: u32) -> u32 {
    return (cell_of(thread.sequence, chunk) * CAPACITY + i) * KEY_DIM * ROW + thread.element;
}

fn outer_at(thread: Thread, i: u32) -> u32 {
    return (thread.sequence * CAPACITY + i) * KEY_DIM * ROW + thread.element;
}

// What reaches entered state i, where the chunk before can take it from.
fn put(thread: Thread, chunk: u32, i: u32, x: columns) {
    if (!thread.live) {
        return;
    }
    if (chunk > 0u) {
        state_gradients[state_at(thread, chunk - 1u, i)] = x;
    } else {
        d_states[outer_at(thread, i)] = x;
    }
}

// Lays out the tokens from `part` on for the four-state groups from state `first` on.
fn stage(thread: Thread, chunk: u32, part: u32, valid: u32, first: u32, lane: u32) {
    let token = chunk_token(chunk);
    let cell = cell_of(thread.sequence, chunk) * CHUNK;
    for (var e = lane; e < PART * FOURS * 4u; e += 128u) {
        let t = part + e / (FOURS * 4u);
        let i = first + e % (FOURS * 4u);
        var weight = 0.0;
        if (t < valid && i < CAPACITY) {
            weight = exp(decay[cell + t]) * read_weights[(cell + t) * CAPACITY + i];
        }
        weights[e / 4u][e % 4u] = weight;
    }
    for (var e = lane; e < PART * DOWN; e += 128u) {
        let t = part + e / DOWN;
        let row = thread.first_row + e % DOWN;
        var query = 0.0;
        if (t < valid && row < KEY_DIM) {
            query = f32(q[key_at(thread.sequence, token + t) + row]);
        }
        queries[e] = query;
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

// One chunk's entered states, from `first` on.
fn walk(thread: Thread, chunk: u32, valid: u32, entered: u32, first: u32, lane: u32) {
    let cell = cell_of(thread.sequence, chunk) * CHUNK;
    let starts = slots[cell + valid - 1u];
    let total = exp(decay[cell + CHUNK - 1u]);
    var sum: array<columns, FOURS * 4u>;
    for (var i = 0u; i < FOURS * 4u; i++) {
        if (thread.live && first + i < entered) {
            sum[i] = total * state_gradients[state_at(thread, chunk, final_state(starts, first + i))];
        }
    }
    for (var part = 0u; part < valid; part += PART) {
        workgroupBarrier();
        stage(thread, chunk, part, valid, first, lane);
        workgroupBarrier();
        for (var t = 0u; t < min(PART, valid - part); t++) {
            let x = queries[t * DOWN + thread.down] * outputs[t * ACROSS + thread.across];
            for (var four = 0u; four < FOURS; four++) {
                let weight = weights[t * FOURS + four];
                sum[4u * four] += weight.x * x;
                sum[4u * four + 1u] += weight.y * x;
                sum[4u * four + 2u] += weight.z * x;
                sum[4u * four + 3u] += weight.w * x;
            }
        }
    }
    for (var i = 0u; i < FOURS * 4u; i++) {
        if (first + i < entered) {
            put(thread, chunk, first + i, sum[i]);
        }
    }
}

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let at = group_index(group);
    let tiles = TILES_DOWN * TILES_ACROSS;
    let sequence = at / tiles;
    if (sequence >= params.sequences) {
        return;
    }
    let tile = at % tiles;
    let first_row = tile / TILES_ACROSS * DOWN;
    let first_column = tile % TILES_ACROSS * ACROSS;
    let row = first_row + lane / ACROSS;
    let column = first_column + lane % ACROSS;
    let live = row < KEY_DIM && column < ROW;
    let thread = Thread(sequence, first_row, first_column, lane / ACROSS, lane % ACROSS, live, row * ROW + column);
    if (live) {
        for (var i = 0u; i < CAPACITY; i++) {
            state_gradients[state_at(thread, params.chunks - 1u, i)] = d_states[outer_at(thread, i)];
        }
    }
    for (var back = 1u; back <= params.chunks; back++) {
        let chunk = params.chunks - back;
        let entry = entry_at(sequence, chunk);
        let entered = entries[entry].x;
        let valid = entries[entry].y;
        if (valid == 0u) {
            for (var i = 0u; live && i < entered; i++) {
                put(thread, chunk, i, state_gradients[state_at(thread, chunk, i)]);
            }
            continue;
        }
        for (var first = 0u; first < entered; first += 4u * FOURS) {
            walk(thread, chunk, valid, entered, first, lane);
        }
    }
    let before = entries[entry_at(sequence, 0u)].x;
    for (var i = before; live && i < CAPACITY; i++) {
        d_states[outer_at(thread, i)] = columns();
    }
}
