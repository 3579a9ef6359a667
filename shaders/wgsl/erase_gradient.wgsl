// The gradients by the keys of the chunkwise delta rule, one group a chunk and 64 columns: by K~_s, which writes,
// dS'_{slot(s)} v_s - dT e^{A_s} k_s, and by e^{A_s} k_s, which erases, -sum_{t >= s} M_ts dq~_t - dT' K~_s.
@group(0) @binding(3) var<storage, read> erase_keys: array<f32>;                // [B H, chunks, Dk, C] e^{A_t} k_t
@group(0) @binding(4) var<storage, read> write_keys: array<f32>;                // [B H, chunks, C, Dk] K~
@group(0) @binding(5) var<storage, read> mixes: array<f32>;                     // [B H, chunks, C, C] M, up to its diagonal
@group(0) @binding(6) var<storage, read> query_gradients: array<f32>;           // [B H, chunks, C, Dk] dq~
@group(0) @binding(7) var<storage, read> transition_gradients: array<f32>;      // [B H, chunks, Dk, Dk] dT
@group(0) @binding(8) var<storage, read> key_gradients: array<f32>;             // [B H, chunks, C, Dk] dS' v
@group(0) @binding(9) var<storage, read_write> write_gradients: array<f32>;     // [B H, chunks, C, Dk]
@group(0) @binding(10) var<storage, read_write> erase_gradients: array<f32>;    // [B H, chunks, C, Dk]

const TILES: u32 = (KEY_DIM + 63u) / 64u;

// Erasing keys of every token, and dT by its columns, from `row` on.
fn stage_written(cell: u32, valid: u32, row: u32, column: u32, lane: u32) {
    for (var e = lane; e < INNER * 64u; e += 256u) {
        let s = e % 64u;
        var key = 0.0;
        if (s < valid && row + e / 64u < KEY_DIM) {
            key = erase_keys[(cell * KEY_DIM + row + e / 64u) * CHUNK + s];
        }
        set_row(e / 64u, s, key);
        let d = column + e / INNER;
        var x = 0.0;
        if (d < KEY_DIM && row + e % INNER < KEY_DIM) {
            x = transition_gradients[(cell * KEY_DIM + d) * KEY_DIM + row + e % INNER];
        }
        set_across(e % INNER, e / INNER, x);
    }
}

// Writing keys of every token, and dT by its rows, from `row` on.
fn stage_erased(cell: u32, valid: u32, row: u32, column: u32, lane: u32) {
    for (var e = lane; e < INNER * 64u; e += 256u) {
        let s = e / INNER;
        var key = 0.0;
        if (s < valid && row + e % INNER < KEY_DIM) {
            key = write_keys[(cell * CHUNK + s) * KEY_DIM + row + e % INNER];
        }
        set_row(e % INNER, s, key);
        let d = column + e % 64u;
        var x = 0.0;
        if (d < KEY_DIM && row + e / 64u < KEY_DIM) {
            x = transition_gradients[(cell * KEY_DIM + row + e / 64u) * KEY_DIM + d];
        }
        set_across(e / 64u, e % 64u, x);
    }
}

// What the tokens from `source` on mixed, and the gradients by their queries.
fn stage_mixed(cell: u32, valid: u32, source: u32, column: u32, lane: u32) {
    for (var e = lane; e < INNER * 64u; e += 256u) {
        let t = source + e / 64u;
        let line = e % 64u;
        var mix = 0.0;
        if (t < valid && line <= t) {
            mix = mixes[(cell * CHUNK + t) * CHUNK + line];
        }
        set_row(e / 64u, line, mix);
        var query = 0.0;
        if (t < valid && column + line < KEY_DIM) {
            query = query_gradients[(cell * CHUNK + t) * KEY_DIM + column + line];
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
    let valid = chunk_valid(sequence, chunk);
    let cell = cell_of(sequence, chunk);
    let column = at % TILES * 64u;
    let x = lane % 16u;
    let y = lane / 16u;
    var written = Block();
    var erased = Block();
    for (var row = 0u; row < KEY_DIM; row += INNER) {
        workgroupBarrier();
        stage_written(cell, valid, row, column, lane);
        workgroupBarrier();
        add_block(&written, x, y);
        workgroupBarrier();
        stage_erased(cell, valid, row, column, lane);
        workgroupBarrier();
        add_block(&erased, x, y);
    }
    for (var source = 0u; source < valid; source += INNER) {
        workgroupBarrier();
        stage_mixed(cell, valid, source, column, lane);
        workgroupBarrier();
        add_block(&erased, x, y);
    }
    for (var r = 0u; r < 4u; r++) {
        for (var m = 0u; m < 4u; m++) {
            let s = 4u * y + r;
            let d = column + 4u * x + m;
            if (s < valid && d < KEY_DIM) {
                let at = (cell * CHUNK + s) * KEY_DIM + d;
                write_gradients[at] = key_gradients[at] - written[r][m];
                erase_gradients[at] = -erased[r][m];
            }
        }
    }
}
