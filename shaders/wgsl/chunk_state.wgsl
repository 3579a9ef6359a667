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

const ROWS: u32 = 4u;                        // rows of the state that one thread keeps
const COLUMNS: u32 = select(select(64u, 32u, VALUE_DIM <= 32u), 16u, VALUE_DIM <= 16u);
const TILE_ROWS: u32 = ROWS * 256u / COLUMNS;
const STAGED: u32 = 16u;                     // tokens staged at once
const TILES_DOWN: u32 = (KEY_DIM + TILE_ROWS - 1u) / TILE_ROWS;
const TILES_ACROSS: u32 = (VALUE_DIM + COLUMNS - 1u) / COLUMNS;

var<workgroup> keys: array<vec4<f32>, STAGED * TILE_ROWS / 4u>;   // e^{A_C - A_t} k_t, rows of the tile
var<workgroup> values: array<f32, STAGED * COLUMNS>;              // v_t, columns of the tile
var<workgroup> weight: array<f32, CHUNK>;                         // e^{A_C - A_t}

struct Tile {
    sequence: u32,
    row: u32,         // the thread's first row of the state
    first_row: u32,   // the group's
    column: u32,
    live: bool,       // the thread's column exists
}

fn element(tile: Tile, r: u32) -> u32 {
    return (tile.row + r) * VALUE_DIM + tile.column;
}

fn state_base(tile: Tile, place: u32) -> u32 {
    return (tile.sequence * CAPACITY + place) * STATE;
}

fn read_state(tile: Tile, place: u32) -> vec4<f32> {
    let base = state_base(tile, place);
    var x = vec4<f32>();
    for (var r = 0u; r < ROWS; r++) {
        if (tile.row + r < KEY_DIM) {
            x[r] = states[base + element(tile, r)];
        }
    }
    return x;
}

fn write_version(tile: Tile, chunk: u32, place: u32, r: u32, x: f32) {
    let row = cell_of(tile.sequence, chunk) * CAPACITY + place;
    versions[row * STATE + element(tile, r)] = io(x);
}

fn write_state(sum: vec4<f32>, tile: Tile, place: u32, chunk: u32) {
    let base = state_base(tile, place);
    for (var r = 0u; r < ROWS; r++) {
        if (tile.row + r < KEY_DIM) {
            states[base + element(tile, r)] = sum[r];
            if (chunk < params.chunks) {
                write_version(tile, chunk, place, r, sum[r]);
            }
        }
    }
}

// The versions that the first chunk is entered with.
fn enter(tile: Tile) {
    let at = entry_at(tile.sequence, 0u);
    for (var i = 0u; i < entries[at].x; i++) {
        let place = entries[at + 1u + i].x & 255u;
        for (var r = 0u; r < ROWS; r++) {
            if (tile.live && tile.row + r < KEY_DIM) {
                write_version(tile, 0u, place, r, states[state_base(tile, place) + element(tile, r)]);
            }
        }
    }
}

// Places that only decayed: their matrices catch up at the segment's end.
fn settle(tile: Tile) {
    let at = entry_at(tile.sequence, params.chunks);
    for (var i = 0u; i < entries[at].x; i++) {
        let entry = entries[at + 1u + i];
        let stale = bitcast<f32>(entry.y);
        if (tile.live && stale != 0.0) {
            let base = state_base(tile, entry.x & 255u);
            for (var r = 0u; r < ROWS; r++) {
                if (tile.row + r < KEY_DIM) {
                    states[base + element(tile, r)] *= exp(stale);
                }
            }
        }
    }
}

fn stage(tile: Tile, first: u32, block: u32, valid: u32, lane: u32) {
    for (var e = lane; e < STAGED * TILE_ROWS / 4u; e += 256u) {
        let t = block + e / (TILE_ROWS / 4u);
        let row = tile.first_row + 4u * (e % (TILE_ROWS / 4u));
        var x = vec4<f32>();
        if (t < valid) {
            let at = key_at(tile.sequence, first + t);
            for (var r = 0u; r < 4u; r++) {
                if (row + r < KEY_DIM) {
                    x[r] = weight[t] * f32(k[at + row + r]);
                }
            }
        }
        keys[e] = x;
    }
    for (var e = lane; e < STAGED * COLUMNS; e += 256u) {
        let t = block + e / COLUMNS;
        let column = tile.column - lane % COLUMNS + e % COLUMNS;
        var x = 0.0;
        if (t < valid && column < VALUE_DIM) {
            x = f32(v[value_at(tile.sequence, first + t) + column]);
        }
        values[e] = x;
    }
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let at = group_index(group);
    let tiles = TILES_DOWN * TILES_ACROSS;
    let sequence = at / tiles;
    if (sequence >= params.sequences) {
        return;
    }
    let first_row = (at % tiles) / TILES_ACROSS * TILE_ROWS;
    let column = (at % tiles) % TILES_ACROSS * COLUMNS + lane % COLUMNS;
    let row = first_row + lane / COLUMNS * ROWS;
    let tile = Tile(sequence, row, first_row, column, column < VALUE_DIM);
    enter(tile);

    for (var chunk = 0u; chunk < params.chunks; chunk++) {
        let entry = entry_at(sequence, chunk);
        let entered = entries[entry].x;
        let valid = entries[entry].y;
        if (valid == 0u) {
            break;
        }
        let first = chunk_token(chunk);
        let cell = cell_of(sequence, chunk);
        let starts = slots[cell * CHUNK + valid - 1u];
        let total = decay[cell * CHUNK + CHUNK - 1u];
        workgroupBarrier();
        for (var t = lane; t < CHUNK; t += 256u) {
            weight[t] = exp(total - decay[cell * CHUNK + t]);
        }

        // Walks the final states and the chunk's tokens together, a staged block of tokens at a time.
        var state = 0u;                       // index of the final state in time order
        var begin = next_start(starts, 0xffffffffu);
        var end = next_start(starts, begin);
        var sum = vec4<f32>();
        var opened = false;                   // the state's entered part is in sum
        for (var block = 0u; block < valid; block += STAGED) {
            workgroupBarrier();
            stage(tile, first, block, valid, lane);
            workgroupBarrier();
            var t = block;
            let stop = min(block + STAGED, valid);
            while (tile.live && t < stop) {
                if (!opened) {
                    sum = vec4<f32>();
                    let states_end = min(end, entered);
                    let touched = end > 64u || states_end > begin + 1u;
                    for (var i = begin; touched && i < states_end; i++) {
                        let record = entries[entry + 1u + i];
                        sum += exp(bitcast<f32>(record.y) + total) * read_state(tile, record.x & 255u);
                    }
                    opened = true;
                    if (end <= 64u) {
                        // Only entered states: done, the tokens are newer.
                        if (touched) {
                            write_state(sum, tile, entries[entry + ENTRY + 1u + state].x & 255u, chunk + 1u);
                        }
                        state++;
                        begin = end;
                        end = next_start(starts, begin);
                        opened = false;
                        continue;
                    }
                }
                let i = t - block;
                sum += values[i * COLUMNS + lane % COLUMNS] * keys[i * (TILE_ROWS / 4u) + lane / COLUMNS];
                t++;
                if (64u + t == end || t == valid) {
                    write_state(sum, tile, entries[entry + ENTRY + 1u + state].x & 255u, chunk + 1u);
                    state++;
                    begin = end;
                    end = next_start(starts, begin);
                    opened = false;
                }
            }
        }
    }
    settle(tile);
}
