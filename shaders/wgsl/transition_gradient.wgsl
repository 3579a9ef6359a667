// The gradient by a chunk's product of transitions under the gated delta rule, sum_i dS'_{slot(i)} S_i'. One group a chunk
// and a tile of 64 by 64.
@group(0) @binding(3) var<storage, read> slots: array<vec4<u32>>;               // [B H, chunks, C]
@group(0) @binding(4) var<storage, read> entries: array<vec2<u32>>;             // [B H, chunks + 1, 1 + K]
@group(0) @binding(5) var<storage, read> versions: array<io>;                   // [B H, chunks, K, Dk, Dv] by place
@group(0) @binding(6) var<storage, read> state_gradients: array<f32>;           // [B H, chunks, K, Dk, Dv] at each chunk's end
@group(0) @binding(7) var<storage, read_write> transition_gradients: array<f32>;// [B H, chunks, Dk, Dk]

const KEY_TILES: u32 = (KEY_DIM + 63u) / 64u;

fn stage(gradient: u32, version: u32, down: u32, right: u32, column: u32, lane: u32) {
    for (var e = lane; e < INNER * 64u; e += 256u) {
        let i = e % INNER;
        let line = e / INNER;
        let c = column + i;
        var x = 0.0;
        var y = 0.0;
        if (down + line < KEY_DIM && c < VALUE_DIM) {
            x = state_gradients[gradient + (down + line) * VALUE_DIM + c];
        }
        if (right + line < KEY_DIM && c < VALUE_DIM) {
            y = f32(versions[version + (right + line) * VALUE_DIM + c]);
        }
        set_row(i, line, x);
        set_across(i, line, y);
    }
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let at = group_index(group);
    let tiles = KEY_TILES * KEY_TILES;
    let chunk = at / tiles % params.chunks;
    let sequence = at / tiles / params.chunks;
    if (sequence >= params.sequences) {
        return;
    }
    let valid = chunk_valid(sequence, chunk);
    if (valid == 0u) {
        return;
    }
    let down = at % tiles / KEY_TILES * 64u;
    let right = at % KEY_TILES * 64u;
    let cell = cell_of(sequence, chunk);
    let starts = slots[cell * CHUNK + valid - 1u];
    let entry = entry_at(sequence, chunk);
    let entered = entries[entry].x;
    let x = lane % 16u;
    let y = lane / 16u;
    var sum = Block();
    for (var i = 0u; i < entered; i++) {
        let record = entries[entry + 1u + i];
        let version = (((record.x >> 8u) + sequence * params.segment_chunks) * CAPACITY + (record.x & 255u)) * STATE;
        let gradient = (cell * CAPACITY + final_state(starts, i)) * STATE;
        for (var column = 0u; column < VALUE_DIM; column += INNER) {
            workgroupBarrier();
            stage(gradient, version, down, right, column, lane);
            workgroupBarrier();
            add_block(&sum, x, y);
        }
    }
    for (var r = 0u; r < 4u; r++) {
        for (var m = 0u; m < 4u; m++) {
            let row = down + 4u * y + r;
            let column = right + 4u * x + m;
            if (row < KEY_DIM && column < KEY_DIM) {
                transition_gradients[(cell * KEY_DIM + row) * KEY_DIM + column] = sum[r][m];
            }
        }
    }
}
