// chunk_state for the gated delta rule, whose transition changes every entered state (docs/algorithm.md, Chunkwise
// form): with S the sum of the entered states that a final state absorbed, it becomes e^{A_C} S + K~' U, where
// U_t = (v_t if token t is its own) - e^{A_t} k_t' S.
//
// Final states are visited in time order, and a place is reused only by a state newer than the one that absorbed what
// lay there, so `states` is updated in place; every thread keeps to elements of its own. Columns are independent.
@group(0) @binding(3) var<storage, read> v: array<io>;                      // [B, T, H, Dv]
@group(0) @binding(4) var<storage, read> decay: array<f32>;                 // [B H, chunks, C]
@group(0) @binding(5) var<storage, read> erase_keys: array<f32>;            // [B H, chunks, Dk, C] e^{A_t} k_t
@group(0) @binding(6) var<storage, read> write_keys: array<f32>;            // [B H, chunks, C, Dk] K~
@group(0) @binding(7) var<storage, read> slots: array<vec4<u32>>;           // [B H, chunks, C]
@group(0) @binding(8) var<storage, read> entries: array<vec2<u32>>;         // [B H, chunks + 1, 1 + K]
@group(0) @binding(9) var<storage, read_write> states: array<f32>;          // [B H, K, Dk, Dv] by place
@group(0) @binding(10) var<storage, read_write> versions: array<io>;        // [B H, chunks, K, Dk, Dv] by place, at each chunk's entry

const COLUMNS: u32 = 16u;                            // columns of a group, four a thread
const ROWS: u32 = (KEY_DIM + 63u) / 64u;             // rows of a thread, 64 apart
const BATCH: u32 = 2u;                               // final states done at once: they share the keys
const TILES: u32 = (VALUE_DIM + COLUMNS - 1u) / COLUMNS;

var<workgroup> stage: array<vec4<f32>, BATCH * 256u>;    // [BATCH][64 rows of S, or tokens of U][4 columns x 4]

alias Part = array<vec4<f32>, ROWS>;

struct Tile {
    sequence: u32,
    row: u32,         // the thread's first row of the state, and its token
    column: u32,      // its first column
    width: u32,       // how many of its four columns exist
}

// A final state: its sources, and the tokens whose keys write it.
struct Span {
    begin: u32,
    end: u32,
    first: u32,       // its own tokens
    last: u32,        // to before this one
    enters: bool,     // it absorbed entered states, so that every token of the chunk writes it
}

fn span_of(starts: vec4<u32>, begin: u32, entered: u32, valid: u32) -> Span {
    let end = next_start(starts, begin);
    let first = max(begin, 64u) - 64u;
    let last = min(max(end, 64u) - 64u, valid);
    return Span(begin, end, first, last, begin < entered);
}

fn element(tile: Tile, r: u32) -> u32 {
    return (tile.row + 64u * r) * VALUE_DIM + tile.column;
}

fn read_state(tile: Tile, place: u32) -> Part {
    let base = (tile.sequence * CAPACITY + place) * STATE;
    var part = Part();
    for (var r = 0u; r < ROWS; r++) {
        if (tile.row + 64u * r < KEY_DIM) {
            for (var c = 0u; c < 4u; c++) {
                if (c < tile.width) {
                    part[r][c] = states[base + element(tile, r) + c];
                }
            }
        }
    }
    return part;
}

fn value(tile: Tile, t: u32) -> vec4<f32> {
    let at = value_at(tile.sequence, t) + tile.column;
    var x = vec4<f32>();
    for (var c = 0u; c < 4u; c++) {
        if (c < tile.width) {
            x[c] = f32(v[at + c]);
        }
    }
    return x;
}

// The matrix at `place` as the chunk `entered` is entered with it.
fn write_version(parts: ptr<function, array<Part, BATCH>>, i: u32, tile: Tile, place: u32, entered: u32) {
    if (entered >= params.chunks) {
        return;
    }
    let base = (cell_of(tile.sequence, entered) * CAPACITY + place) * STATE;
    for (var r = 0u; r < ROWS; r++) {
        if (tile.row + 64u * r < KEY_DIM) {
            for (var c = 0u; c < 4u; c++) {
                if (c < tile.width) {
                    versions[base + element(tile, r) + c] = io((*parts)[i][r][c]);
                }
            }
        }
    }
}

fn write_state(parts: ptr<function, array<Part, BATCH>>, i: u32, tile: Tile, place: u32) {
    let base = (tile.sequence * CAPACITY + place) * STATE;
    for (var r = 0u; r < ROWS; r++) {
        if (tile.row + 64u * r < KEY_DIM) {
            for (var c = 0u; c < 4u; c++) {
                if (c < tile.width) {
                    states[base + element(tile, r) + c] = (*parts)[i][r][c];
                }
            }
        }
    }
}

// The thread's token and columns of e^{A_t} k_t' S.
fn erased(parts: ptr<function, array<Part, BATCH>>, tile: Tile, cell: u32, valid: u32, lane: u32) -> array<vec4<f32>, BATCH> {
    var sum = array<vec4<f32>, BATCH>();
    for (var r = 0u; r < ROWS; r++) {
        workgroupBarrier();
        for (var i = 0u; i < BATCH; i++) {
            stage[i * 256u + lane] = (*parts)[i][r];
        }
        workgroupBarrier();
        if (tile.row < valid) {
            for (var d = 0u; d < min(64u, KEY_DIM - 64u * r); d++) {
                let key = erase_keys[(cell * KEY_DIM + 64u * r + d) * CHUNK + tile.row];
                for (var i = 0u; i < BATCH; i++) {
                    sum[i] += key * stage[i * 256u + d * 4u + lane % 4u];
                }
            }
        }
    }
    return sum;
}

// Adds K~_t U_t of the tokens that write each state, U staged.
fn add_written(parts: ptr<function, array<Part, BATCH>>, spans: ptr<function, array<Span, BATCH>>, tile: Tile, cell: u32, valid: u32, lane: u32) {
    var from_token = array<u32, BATCH>();
    var to_token = array<u32, BATCH>();
    var stop = 0u;
    for (var i = 0u; i < BATCH; i++) {
        from_token[i] = select((*spans)[i].first, 0u, (*spans)[i].enters);
        to_token[i] = select((*spans)[i].last, valid, (*spans)[i].enters);
        stop = max(stop, to_token[i]);
    }
    for (var t = from_token[0]; t < stop; t++) {
        for (var r = 0u; r < ROWS; r++) {
            if (tile.row + 64u * r < KEY_DIM) {
                let key = write_keys[(cell * CHUNK + t) * KEY_DIM + tile.row + 64u * r];
                for (var i = 0u; i < BATCH; i++) {
                    if (t >= from_token[i] && t < to_token[i]) {
                        (*parts)[i][r] += key * stage[i * 256u + t * 4u + lane % 4u];
                    }
                }
            }
        }
    }
}

// The versions that the first chunk is entered with.
fn enter(tile: Tile) {
    let at = entry_at(tile.sequence, 0u);
    for (var i = 0u; i < entries[at].x; i++) {
        let place = entries[at + 1u + i].x & 255u;
        var parts = array<Part, BATCH>();
        parts[0] = read_state(tile, place);
        write_version(&parts, 0u, tile, place, 0u);
    }
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let at = group_index(group);
    let sequence = at / TILES;
    if (sequence >= params.sequences) {
        return;
    }
    let column = at % TILES * COLUMNS + lane % 4u * 4u;
    let width = select(min(VALUE_DIM - column, 4u), 0u, column >= VALUE_DIM);
    let tile = Tile(sequence, lane / 4u, column, width);
    enter(tile);

    for (var chunk = 0u; chunk < params.chunks; chunk++) {
        let entry = entry_at(sequence, chunk);
        let entered = entries[entry].x;
        let valid = entries[entry].y;
        if (valid == 0u) {
            break;
        }
        let cell = cell_of(sequence, chunk);
        let starts = slots[cell * CHUNK + valid - 1u];
        let total = exp(decay[cell * CHUNK + CHUNK - 1u]);
        var begin = next_start(starts, 0xffffffffu);
        for (var state = 0u; begin < 128u; state += BATCH) {
            var spans = array<Span, BATCH>();
            var parts = array<Part, BATCH>();
            for (var i = 0u; i < BATCH; i++) {
                spans[i] = span_of(starts, begin, entered, valid);
                for (var source = begin; source < min(spans[i].end, entered); source++) {
                    var absorbed = read_state(tile, entries[entry + 1u + source].x & 255u);
                    for (var r = 0u; r < ROWS; r++) {
                        parts[i][r] += absorbed[r];
                    }
                }
                begin = spans[i].end;
            }
            var u = array<vec4<f32>, BATCH>();
            if (spans[0].enters) {
                u = erased(&parts, tile, cell, valid, lane);
            }
            workgroupBarrier();
            for (var i = 0u; i < BATCH; i++) {
                // A state that began in the chunk erases nothing: not even 0 times a key, which may not be finite.
                var x = select(vec4<f32>(), -u[i], spans[i].enters);
                if (tile.row >= spans[i].first && tile.row < spans[i].last) {
                    x += value(tile, chunk_token(chunk) + tile.row);
                }
                stage[i * 256u + lane] = x;
                for (var r = 0u; r < ROWS; r++) {
                    parts[i][r] *= total;
                }
            }
            workgroupBarrier();
            add_written(&parts, &spans, tile, cell, valid, lane);
            for (var i = 0u; i < BATCH; i++) {
                if (spans[i].begin < 128u) {
                    let place = entries[entry + ENTRY + 1u + state + i].x & 255u;
                    write_state(&parts, i, tile, place);
                    write_version(&parts, i, tile, place, chunk + 1u);
                }
            }
        }
    }
}
