// The states through the chunks of a segment (docs/algorithm.md, Chunkwise form): at every chunk's end each place that
// took tokens or merged holds the decayed sum of the entered states it absorbed and of its tokens' k v'. Every token
// is added once and every place touched at most once, however many boundaries the chunk had.
//
// `states` is updated in place: final states are visited in time order, and a place is reused only by a state newer
// than the one that absorbed what lay there. Every new matrix is also written to `versions`, for the chunks that read it.
@group(0) @binding(3) var<storage, read> k: array<io>;                      // [B, T, G, Dk]
@group(0) @binding(4) var<storage, read> v: array<columns_io>;              // [B, T, H, Dv]
@group(0) @binding(5) var<storage, read> decay: array<f32>;                 // [B H, chunks, C]
@group(0) @binding(6) var<storage, read> slots: array<vec4<u32>>;           // [B H, chunks, C]
@group(0) @binding(7) var<storage, read> entries: array<vec2<u32>>;         // [B H, chunks + 1, 1 + K]
@group(0) @binding(8) var<storage, read_write> states: array<columns>;      // [B H, K, Dk, Dv] by place
@group(0) @binding(9) var<storage, read_write> versions: array<columns_io>; // [B H, chunks, K, Dk, Dv] by place, at each chunk's entry

// A group owns a tile of every state, a thread one value of it: four columns, or one where Dv is not a multiple of four.
const ROW: u32 = VALUE_DIM / WIDTH;              // values of a row
const ACROSS: u32 = select(8u, 4u, ROW <= 4u);
const DOWN: u32 = 128u / ACROSS;
const TILES_DOWN: u32 = (KEY_DIM + DOWN - 1u) / DOWN;
const TILES_ACROSS: u32 = (ROW + ACROSS - 1u) / ACROSS;

var<workgroup> keys: array<f32, CHUNK * DOWN>;               // e^{A_C - A_t} k_t, rows of the tile
var<workgroup> values: array<columns, CHUNK * ACROSS>;       // v_t, columns of the tile
var<workgroup> from_place: array<u32, CAPACITY>;             // of the entered states
var<workgroup> scale: array<f32, CAPACITY>;                  // their decay to the chunk's end since they were written
var<workgroup> to_place: array<u32, CAPACITY>;               // of the final states
var<workgroup> begins: array<u32, CAPACITY + 1u>;            // where they begin in the slot map; the last end is 64 + valid

struct Thread {
    sequence: u32,
    first_row: u32,      // of the group's tile
    first_column: u32,
    down: u32,           // the thread's value in the tile
    across: u32,
    live: bool,          // it exists
    element: u32,        // where it lies in a state
}

fn read_state(thread: Thread, place: u32) -> columns {
    if (thread.live) {
        return states[(thread.sequence * CAPACITY + place) * KEY_DIM * ROW + thread.element];
    }
    return columns();
}

// Writes a matrix to its place, and to the versions of `chunk` if the segment has that one.
fn write_state(thread: Thread, place: u32, chunk: u32, x: columns) {
    if (thread.live) {
        states[(thread.sequence * CAPACITY + place) * KEY_DIM * ROW + thread.element] = x;
        if (chunk < params.chunks) {
            write_version(thread, place, chunk, x);
        }
    }
}

fn write_version(thread: Thread, place: u32, chunk: u32, x: columns) {
    if (thread.live) {
        let row = cell_of(thread.sequence, chunk) * CAPACITY + place;
        versions[row * KEY_DIM * ROW + thread.element] = columns_io(x);
    }
}

// The versions that the first chunk is entered with.
fn enter(thread: Thread) {
    let at = entry_at(thread.sequence, 0u);
    for (var i = 0u; i < entries[at].x; i++) {
        let place = entries[at + 1u + i].x & 255u;
        write_version(thread, place, 0u, read_state(thread, place));
    }
}

// Places that only decayed: their matrices catch up at the segment's end.
fn settle(thread: Thread) {
    let at = entry_at(thread.sequence, params.chunks);
    for (var i = 0u; i < entries[at].x; i++) {
        let entry = entries[at + 1u + i];
        let stale = bitcast<f32>(entry.y);
        if (stale != 0.0) {
            let place = entry.x & 255u;
            write_state(thread, place, params.chunks, exp(stale) * read_state(thread, place));
        }
    }
}

// The decayed sum of entered states [begin, end), four on their way at a time.
fn absorb(thread: Thread, begin: u32, end: u32) -> columns {
    var sum = columns();
    var i = begin;
    for (; i + 4u <= end; i += 4u) {
        let x0 = read_state(thread, from_place[i]);
        let x1 = read_state(thread, from_place[i + 1u]);
        let x2 = read_state(thread, from_place[i + 2u]);
        let x3 = read_state(thread, from_place[i + 3u]);
        sum += scale[i] * x0 + scale[i + 1u] * x1 + scale[i + 2u] * x2 + scale[i + 3u] * x3;
    }
    for (; i < end; i++) {
        sum += scale[i] * read_state(thread, from_place[i]);
    }
    return sum;
}

// Lays out the chunk: its tokens' rows and columns, the entered and the final states. Returns how many are final.
fn stage(thread: Thread, chunk: u32, valid: u32, lane: u32) -> u32 {
    let first = chunk_token(chunk);
    let cell = cell_of(thread.sequence, chunk) * CHUNK;
    let total = decay[cell + CHUNK - 1u];
    for (var e = lane; e < valid * DOWN; e += 128u) {
        let t = e / DOWN;
        let row = thread.first_row + e % DOWN;
        var x = 0.0;
        if (row < KEY_DIM) {
            x = f32(k[key_at(thread.sequence, first + t) + row]);
        }
        keys[e] = exp(total - decay[cell + t]) * x;
    }
    for (var e = lane; e < valid * ACROSS; e += 128u) {
        let column = thread.first_column + e % ACROSS;
        var x = columns();
        if (column < ROW) {
            x = widen(v[token_head(thread.sequence, first + e / ACROSS) * ROW + column]);
        }
        values[e] = x;
    }
    let entry = entry_at(thread.sequence, chunk);
    for (var i = lane; i < CAPACITY; i += 128u) {
        let record = entries[entry + 1u + i];
        from_place[i] = record.x & 255u;
        scale[i] = exp(bitcast<f32>(record.y) + total);
        to_place[i] = entries[entry + ENTRY + 1u + i].x & 255u;
    }
    let starts = slots[cell + valid - 1u];
    let final_states = bits_below(starts, 128u);
    if (has_bit(starts, lane)) {
        begins[bits_below(starts, lane)] = lane;
    }
    if (lane == 0u) {
        begins[final_states] = 64u + valid;
    }
    return final_states;
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
    enter(thread);
    for (var chunk = 0u; chunk < params.chunks; chunk++) {
        let entry = entry_at(sequence, chunk);
        let entered = entries[entry].x;
        let valid = entries[entry].y;
        if (valid == 0u) {
            break;
        }
        workgroupBarrier();
        let final_states = stage(thread, chunk, valid, lane);
        workgroupBarrier();
        for (var state = 0u; state < final_states; state++) {
            let begin = begins[state];
            let end = begins[state + 1u];
            // Entered states lie below 64, tokens from there on.
            let absorbed_end = min(end, entered);
            if (end <= 64u && absorbed_end <= begin + 1u) {
                continue;
            }
            var sum = absorb(thread, begin, absorbed_end);
            for (var t = max(begin, 64u); t < end; t++) {
                sum += keys[(t - 64u) * DOWN + thread.down] * values[(t - 64u) * ACROSS + thread.across];
            }
            write_state(thread, to_place[state], chunk + 1u, sum);
        }
    }
    settle(thread);
}
