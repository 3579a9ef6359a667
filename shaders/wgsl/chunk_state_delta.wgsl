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
const TILES: u32 = (VALUE_DIM + COLUMNS - 1u) / COLUMNS;

var<workgroup> stage: array<vec4<f32>, 256>;         // [64 rows of S, or tokens of U][4 columns x 4]

alias Part = array<vec4<f32>, ROWS>;

struct Tile {
    sequence: u32,
    row: u32,         // the thread's first row of the state
    column: u32,      // its first column
    width: u32,       // how many of its four columns exist
}

fn element(tile: Tile, r: u32) -> u32 {
    return (tile.row + 64u * r) * VALUE_DIM + tile.column;
}

fn add_state(part: ptr<function, Part>, tile: Tile, place: u32) {
    let base = (tile.sequence * CAPACITY + place) * STATE;
    for (var r = 0u; r < ROWS; r++) {
        if (tile.row + 64u * r < KEY_DIM) {
            for (var c = 0u; c < 4u; c++) {
                if (c < tile.width) {
                    (*part)[r][c] += states[base + element(tile, r) + c];
                }
            }
        }
    }
}

// The matrix at `place` as the chunk `entered` is entered with it.
fn write_version(part: ptr<function, Part>, tile: Tile, place: u32, entered: u32) {
    if (entered >= params.chunks) {
        return;
    }
    let base = (cell_of(tile.sequence, entered) * CAPACITY + place) * STATE;
    for (var r = 0u; r < ROWS; r++) {
        if (tile.row + 64u * r < KEY_DIM) {
            for (var c = 0u; c < 4u; c++) {
                if (c < tile.width) {
                    versions[base + element(tile, r) + c] = io((*part)[r][c]);
                }
            }
        }
    }
}

fn write_state(part: ptr<function, Part>, tile: Tile, place: u32) {
    let base = (tile.sequence * CAPACITY + place) * STATE;
    for (var r = 0u; r < ROWS; r++) {
        if (tile.row + 64u * r < KEY_DIM) {
            for (var c = 0u; c < 4u; c++) {
                if (c < tile.width) {
                    states[base + element(tile, r) + c] = (*part)[r][c];
                }
            }
        }
    }
}

// The thread's token and columns of e^{A_t} k_t' S.
fn erased(part: ptr<function, Part>, tile: Tile, cell: u32, valid: u32, lane: u32) -> vec4<f32> {
    var sum = vec4<f32>();
    for (var r = 0u; r < ROWS; r++) {
        workgroupBarrier();
        stage[lane] = (*part)[r];
        workgroupBarrier();
        if (tile.row < valid) {
            for (var d = 0u; d < min(64u, KEY_DIM - 64u * r); d++) {
                let key = erase_keys[(cell * KEY_DIM + 64u * r + d) * CHUNK + tile.row];
                sum += key * stage[lane / 64u * 64u + d];
            }
        }
    }
    return sum;
}

// part = scale part + sum over tokens from `first` to before `end` of K~_t U_t, U staged.
fn add_written(part: ptr<function, Part>, tile: Tile, cell: u32, first: u32, end: u32, scale: f32, lane: u32) {
    for (var r = 0u; r < ROWS; r++) {
        (*part)[r] *= scale;
    }
    for (var t = first; t < end; t++) {
        let u = stage[lane / 64u * 64u + t];
        for (var r = 0u; r < ROWS; r++) {
            if (tile.row + 64u * r < KEY_DIM) {
                (*part)[r] += write_keys[(cell * CHUNK + t) * KEY_DIM + tile.row + 64u * r] * u;
            }
        }
    }
}

// The versions that the first chunk is entered with.
fn enter(tile: Tile) {
    let at = entry_at(tile.sequence, 0u);
    for (var i = 0u; i < entries[at].x; i++) {
        let place = entries[at + 1u + i].x & 255u;
        var part: Part;
        add_state(&part, tile, place);
        write_version(&part, tile, place, 0u);
    }
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let at = group_index(group);
    let sequence = at / TILES;
    if (sequence >= params.sequences) {
        return;
    }
    let column = at % TILES * COLUMNS + lane / 64u * 4u;
    let width = select(min(VALUE_DIM - column, 4u), 0u, column >= VALUE_DIM);
    let tile = Tile(sequence, lane % 64u, column, width);
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
        for (var state = 0u; begin < 128u; state++) {
            let end = next_start(starts, begin);
            var part: Part;
            for (var i = begin; i < min(end, entered); i++) {
                add_state(&part, tile, entries[entry + 1u + i].x & 255u);
            }
            // Its own tokens; an entered part is read and written by all of them.
            let first = max(begin, 64u) - 64u;
            let last = min(max(end, 64u) - 64u, valid);
            var u = vec4<f32>();
            if (begin < entered) {
                u = -erased(&part, tile, cell, valid, lane);
            }
            if (tile.row >= first && tile.row < last) {
                let value = value_at(sequence, chunk_token(chunk) + tile.row) + column;
                for (var c = 0u; c < 4u; c++) {
                    if (c < width) {
                        u[c] += f32(v[value + c]);
                    }
                }
            }
            workgroupBarrier();
            stage[lane] = u;
            workgroupBarrier();
            if (begin < entered) {
                add_written(&part, tile, cell, 0u, valid, total, lane);
            } else {
                add_written(&part, tile, cell, first, last, 1.0, lane);
            }
            let place = entries[entry + ENTRY + 1u + state].x & 255u;
            write_state(&part, tile, place);
            write_version(&part, tile, place, chunk + 1u);
            begin = end;
        }
    }
}
