// The states through the chunks of a segment (docs/algorithm.md, Chunkwise form): at every chunk's end each place that
// took tokens or merged holds the decayed sum of the entered states it absorbed and of its tokens' k v'. Every token
// is added once and every place touched at most once, however many boundaries the chunk had.
//
// `states` is updated in place: final states are visited in time order, and a place is reused only by a state newer
// than the one that absorbed what lay there. Every new matrix is also written to `versions`, for the chunks that read it.
@group(0) @binding(3) var<storage, read> k: array<io>;                      // [B, T, G, Dk]
@group(0) @binding(4) var<storage, read> v: array<io>;                      // [B, T, H, Dv]
@group(0) @binding(5) var<storage, read> decay: array<f32>;                 // [B H, chunks, C]
@group(0) @binding(6) var<storage, read> slots: array<vec4<u32>>;           // [B H, chunks, C]
@group(0) @binding(7) var<storage, read> entries: array<vec2<u32>>;         // [B H, chunks + 1, 1 + K]
@group(0) @binding(8) var<storage, read_write> states: array<f32>;          // [B H, K, Dk, Dv] by place
@group(0) @binding(9) var<storage, read_write> versions: array<io>;         // [B H, chunks, K, Dk, Dv] by place, at each chunk's entry

// A group owns a tile of every state, a thread four rows of one column.
const COLUMNS: u32 = select(32u, 16u, VALUE_DIM <= 16u);
const QUADS: u32 = 128u / COLUMNS;               // threads down, each with four rows
const TILE_ROWS: u32 = 4u * QUADS;
const TILES_DOWN: u32 = (KEY_DIM + TILE_ROWS - 1u) / TILE_ROWS;
const TILES_ACROSS: u32 = (VALUE_DIM + COLUMNS - 1u) / COLUMNS;
const WHOLE: bool = KEY_DIM % TILE_ROWS == 0u && VALUE_DIM % COLUMNS == 0u;

var<workgroup> keys: array<vec4<f32>, CHUNK * QUADS>;        // e^{A_C - A_t} k_t, rows of the tile
var<workgroup> values: array<f32, CHUNK * COLUMNS>;          // v_t, columns of the tile
var<workgroup> from_place: array<u32, CAPACITY>;             // of the entered states
var<workgroup> scale: array<f32, CAPACITY>;                  // their decay to the chunk's end since they were written
var<workgroup> to_place: array<u32, CAPACITY>;               // of the final states
var<workgroup> begins: array<u32, CAPACITY + 1u>;            // where they begin in the slot map; the last end is 64 + valid

struct Thread {
    sequence: u32,
    first_row: u32,      // of the group's tile
    first_column: u32,
    quad: u32,           // which four rows of the tile
    column: u32,         // of the tile
}

// Whether row r of the thread's four exists.
fn exists(thread: Thread, r: u32) -> bool {
    return WHOLE || (thread.first_row + 4u * thread.quad + r < KEY_DIM && thread.first_column + thread.column < VALUE_DIM);
}

fn element(thread: Thread, r: u32) -> u32 {
    return (thread.first_row + 4u * thread.quad + r) * VALUE_DIM + thread.first_column + thread.column;
}

fn state_at(thread: Thread, place: u32) -> u32 {
    return (thread.sequence * CAPACITY + place) * STATE;
}

fn read_state(thread: Thread, place: u32) -> vec4<f32> {
    let at = state_at(thread, place);
    var x = vec4<f32>();
    for (var r = 0u; r < 4u; r++) {
        if (exists(thread, r)) {
            x[r] = states[at + element(thread, r)];
        }
    }
    return x;
}

// Writes a matrix to its place, and to the versions of `chunk` if the segment has that one.
fn write_state(thread: Thread, place: u32, chunk: u32, x: vec4<f32>) {
    let at = state_at(thread, place);
    for (var r = 0u; r < 4u; r++) {
        if (exists(thread, r)) {
            states[at + element(thread, r)] = x[r];
        }
    }
    if (chunk < params.chunks) {
        write_version(thread, place, chunk, x);
    }
}

fn write_version(thread: Thread, place: u32, chunk: u32, x: vec4<f32>) {
    let at = (cell_of(thread.sequence, chunk) * CAPACITY + place) * STATE;
    for (var r = 0u; r < 4u; r++) {
        if (exists(thread, r)) {
            versions[at + element(thread, r)] = io(x[r]);
        }
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
fn absorb(thread: Thread, begin: u32, end: u32) -> vec4<f32> {
    var sum = vec4<f32>();
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
    for (var e = lane; e < valid * QUADS; e += 128u) {
        let t = e / QUADS;
        let row = thread.first_row + 4u * (e % QUADS);
        let at = key_at(thread.sequence, first + t) + row;
        var x = vec4<f32>();
        for (var r = 0u; r < 4u; r++) {
            if (WHOLE || row + r < KEY_DIM) {
                x[r] = f32(k[at + r]);
            }
        }
        keys[e] = exp(total - decay[cell + t]) * x;
    }
    for (var e = lane; e < valid * COLUMNS; e += 128u) {
        let column = thread.first_column + e % COLUMNS;
        if (WHOLE || column < VALUE_DIM) {
            values[e] = f32(v[value_at(thread.sequence, first + e / COLUMNS) + column]);
        }
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
    let thread = Thread(
        sequence,
        tile / TILES_ACROSS * TILE_ROWS,
        tile % TILES_ACROSS * COLUMNS,
        lane / COLUMNS,
        lane % COLUMNS,
    );
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
                sum += values[(t - 64u) * COLUMNS + thread.column] * keys[(t - 64u) * QUADS + thread.quad];
            }
            write_state(thread, to_place[state], chunk + 1u, sum);
        }
    }
    settle(thread);
}
