// What keys read under the gated delta rule before their own transition, for the score: of entered states with
// e^{A_{t-1}} k_t - sum_{j < t} P_tj e^{A_j} k_j, and of the chunk's own tokens sum_{j < t} P_tj v_j. One group a chunk
// and 64 of these columns.
@group(0) @binding(3) var<storage, read> k: array<io>;                      // [B, T, G, Dk]
@group(0) @binding(4) var<storage, read> v: array<io>;                      // [B, T, H, Dv]
@group(0) @binding(5) var<storage, read> decay: array<f32>;                 // [B H, chunks, C]
@group(0) @binding(6) var<storage, read> probes: array<f32>;                // [B H, chunks, C, C] P
@group(0) @binding(7) var<storage, read_write> probe_keys: array<f32>;      // [B H, chunks, C, Dk + Dv] the two, side by side

const KEY_TILES: u32 = (KEY_DIM + 63u) / 64u;
const TILES: u32 = KEY_TILES + (VALUE_DIM + 63u) / 64u;

fn stage_left_probes(cell: u32, source: u32, valid: u32, lane: u32) {
    for (var e = lane; e < TILE * 64u; e += 256u) {
        let t = e / TILE;
        let j = source + e % TILE;
        var probe = 0.0;
        if (t < valid && j < t) {
            probe = probes[(cell * CHUNK + t) * CHUNK + j];
        }
        left[e % TILE * PITCH + t] = probe;
    }
}

// e^{A_j} k_j or v_j.
fn read_of(values: bool, sequence: u32, cell: u32, first: u32, j: u32, column: u32) -> f32 {
    if (values) {
        return f32(v[value_at(sequence, first + j) + column]);
    }
    return exp(decay[cell * CHUNK + j]) * f32(k[key_at(sequence, first + j) + column]);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let at = group_index(group);
    let sequence = at / TILES / params.chunks;
    if (sequence >= params.sequences) {
        return;
    }
    let chunk = at / TILES % params.chunks;
    let values = at % TILES >= KEY_TILES;
    let across = select(at % TILES, at % TILES - KEY_TILES, values) * 64u;
    let width = select(KEY_DIM, VALUE_DIM, values);
    let valid = chunk_valid(sequence, chunk);
    let first = chunk_token(chunk);
    let cell = cell_of(sequence, chunk);
    let x = lane % 16u;
    let y = lane / 16u;
    var sum = array<vec4<f32>, 4>();
    for (var source = 0u; source < valid; source += TILE) {
        workgroupBarrier();
        stage_left_probes(cell, source, valid, lane);
        for (var e = lane; e < TILE * 64u; e += 256u) {
            let j = source + e / 64u;
            let column = across + e % 64u;
            var value = 0.0;
            if (j < valid && column < width) {
                value = read_of(values, sequence, cell, first, j, column);
            }
            tile[e / 64u * PITCH + e % 64u] = value;
        }
        workgroupBarrier();
        add_product(&sum, x, y, true, source);
    }
    for (var r = 0u; r < 4u; r++) {
        for (var m = 0u; m < 4u; m++) {
            let t = y + 16u * r;
            let column = across + x + 16u * m;
            if (t < valid && column < width) {
                let row = (cell * CHUNK + t) * (KEY_DIM + VALUE_DIM);
                if (values) {
                    probe_keys[row + KEY_DIM + column] = sum[r][m];
                } else {
                    var key = f32(k[key_at(sequence, first + t) + column]);
                    if (t > 0u) {
                        key *= exp(decay[cell * CHUNK + t - 1u]);
                    }
                    probe_keys[row + column] = key - sum[r][m];
                }
            }
        }
    }
}
