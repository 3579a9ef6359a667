// state_gradient for the gated delta rule, whose transition T = e^{A_C} - sum_t K~_t (e^{A_t} k_t)' every entered state went
// through: dS_i = T' dS'_{slot(i)} + (what outer_gradient left), with T' X = e^{A_C} X - sum_t e^{A_t} k_t (K~_t' X).
//
// T' dS' is kept where the entered states' own shares lay: final state j absorbed none older than entered state j.
@group(0) @binding(3) var<storage, read> k: array<io>;                          // [B, T, G, Dk]
@group(0) @binding(4) var<storage, read> decay: array<f32>;                     // [B H, chunks, C]
@group(0) @binding(5) var<storage, read> write_keys: array<f32>;                // [B H, chunks, C, Dk] K~
@group(0) @binding(6) var<storage, read> slots: array<vec4<u32>>;               // [B H, chunks, C]
@group(0) @binding(7) var<storage, read> entries: array<vec2<u32>>;             // [B H, chunks + 1, 1 + K]
@group(0) @binding(8) var<storage, read_write> d_states: array<f32>;            // [B H, K, Dk, Dv] behind the segment, then before it
@group(0) @binding(9) var<storage, read_write> state_gradients: array<f32>;     // [B H, chunks, K, Dk, Dv] at each chunk's end
@group(0) @binding(10) var<storage, read_write> carried_gradients: array<f32>;  // [B H, chunks, K, Dk, Dv] shares of entered states, then T' dS'

const COLUMNS: u32 = 16u;                            // columns of a group, four a thread
const ROWS: u32 = (KEY_DIM + 63u) / 64u;             // rows of a thread, 64 apart
const TILES: u32 = (VALUE_DIM + COLUMNS - 1u) / COLUMNS;

var<workgroup> stage: array<vec4<f32>, 256>;         // [64 rows or tokens][4 columns x 4]
var<workgroup> seen: array<f32, CHUNK>;              // e^{A_t}

alias Part = array<vec4<f32>, ROWS>;

struct Tile {
    sequence: u32,
    row: u32,         // the thread's first row of the state, and its token
    column: u32,      // its first column
    width: u32,       // how many of its four columns exist
}

// Where row `row` + 64 r of state i lies in a record of states.
fn element(tile: Tile, i: u32, r: u32) -> u32 {
    return i * STATE + (tile.row + 64u * r) * VALUE_DIM + tile.column;
}

fn is_row(tile: Tile, r: u32) -> bool {
    return tile.row + 64u * r < KEY_DIM;
}

fn record(tile: Tile, chunk: u32) -> u32 {
    return cell_of(tile.sequence, chunk) * CAPACITY * STATE;
}

fn outer_record(tile: Tile) -> u32 {
    return tile.sequence * CAPACITY * STATE;
}

fn gradient(tile: Tile, chunk: u32, i: u32) -> Part {
    var part = Part();
    for (var r = 0u; r < ROWS; r++) {
        for (var c = 0u; c < 4u; c++) {
            if (is_row(tile, r) && c < tile.width) {
                part[r][c] = state_gradients[record(tile, chunk) + element(tile, i, r) + c];
            }
        }
    }
    return part;
}

fn carried(tile: Tile, chunk: u32, i: u32) -> Part {
    var part = Part();
    for (var r = 0u; r < ROWS; r++) {
        for (var c = 0u; c < 4u; c++) {
            if (is_row(tile, r) && c < tile.width) {
                part[r][c] = carried_gradients[record(tile, chunk) + element(tile, i, r) + c];
            }
        }
    }
    return part;
}

// What reaches entered state i, where the chunk before can take it from.
fn put(tile: Tile, chunk: u32, i: u32, x: ptr<function, Part>) {
    for (var r = 0u; r < ROWS; r++) {
        for (var c = 0u; c < 4u; c++) {
            if (is_row(tile, r) && c < tile.width) {
                let at = element(tile, i, r) + c;
                if (chunk > 0u) {
                    state_gradients[record(tile, chunk - 1u) + at] = (*x)[r][c];
                } else {
                    d_states[outer_record(tile) + at] = (*x)[r][c];
                }
            }
        }
    }
}

// T' of a matrix.
fn carry(x: ptr<function, Part>, tile: Tile, chunk: u32, valid: u32, lane: u32) -> Part {
    let cell = cell_of(tile.sequence, chunk);
    var written = vec4<f32>();
    for (var r = 0u; r < ROWS; r++) {
        workgroupBarrier();
        stage[lane] = (*x)[r];
        workgroupBarrier();
        if (tile.row < valid) {
            let keys = (cell * CHUNK + tile.row) * KEY_DIM + 64u * r;
            for (var d = 0u; d < min(64u, KEY_DIM - 64u * r); d++) {
                written += write_keys[keys + d] * stage[d * 4u + lane % 4u];
            }
        }
    }
    workgroupBarrier();
    stage[lane] = written;
    workgroupBarrier();
    let total = exp(decay[cell * CHUNK + CHUNK - 1u]);
    var sum = Part();
    for (var r = 0u; r < ROWS; r++) {
        sum[r] = total * (*x)[r];
        if (is_row(tile, r)) {
            for (var t = 0u; t < valid; t++) {
                let key = seen[t] * f32(k[key_at(tile.sequence, chunk_token(chunk) + t) + tile.row + 64u * r]);
                sum[r] -= key * stage[t * 4u + lane % 4u];
            }
        }
    }
    return sum;
}

// Takes one chunk's entered states back. The sequence stands beside the tile, whose rows differ: browsers ask that
// whatever loops with barriers depend on is seen to be the same in all threads.
fn walk(tile: Tile, sequence: u32, chunk: u32, valid: u32, entered: u32, lane: u32) {
    let starts = slots[cell_of(sequence, chunk) * CHUNK + valid - 1u];
    // The final states that absorbed entered ones, and the one after them, for a gate.
    let states = min(final_state(starts, entered - 1u) + 2u, bits_below(starts, 128u));
    var i = 0u;
    for (var j = 0u; j < states; j++) {
        var x = gradient(tile, chunk, j);
        var back = carry(&x, tile, chunk, valid, lane);
        for (; i < entered && final_state(starts, i) == j; i++) {
            var share = carried(tile, chunk, i);
            for (var r = 0u; r < ROWS; r++) {
                share[r] += back[r];
            }
            put(tile, chunk, i, &share);
        }
        for (var r = 0u; r < ROWS; r++) {
            for (var c = 0u; c < 4u; c++) {
                if (is_row(tile, r) && c < tile.width) {
                    carried_gradients[record(tile, chunk) + element(tile, j, r) + c] = back[r][c];
                }
            }
        }
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
    for (var i = 0u; i < CAPACITY; i++) {
        for (var r = 0u; r < ROWS; r++) {
            for (var c = 0u; c < 4u; c++) {
                if (is_row(tile, r) && c < tile.width) {
                    let e = element(tile, i, r) + c;
                    state_gradients[record(tile, params.chunks - 1u) + e] = d_states[outer_record(tile) + e];
                }
            }
        }
    }
    for (var back = 1u; back <= params.chunks; back++) {
        let chunk = params.chunks - back;
        let entry = entry_at(sequence, chunk);
        let entered = entries[entry].x;
        let valid = entries[entry].y;
        if (valid == 0u) {
            for (var i = 0u; i < entered; i++) {
                var x = gradient(tile, chunk, i);
                put(tile, chunk, i, &x);
            }
            continue;
        }
        workgroupBarrier();
        if (lane < valid) {
            seen[lane] = exp(decay[cell_of(sequence, chunk) * CHUNK + lane]);
        }
        workgroupBarrier();
        if (entered > 0u) {
            walk(tile, sequence, chunk, valid, entered, lane);
        }
    }
    var zeros = Part();
    for (var i = entries[entry_at(sequence, 0u)].x; i < CAPACITY; i++) {
        put(tile, 0u, i, &zeros);
    }
}
