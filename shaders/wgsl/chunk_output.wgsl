// The attention form inside a chunk, on top of what readout carried in:
// o_t = carried_t + sum_{s <= t} lambda_{t, rank_t(s)} mix_ts v_s (docs/algorithm.md, Chunkwise form), where mix is the
// backbone's: common/mix_decay.wgsl, common/mix_delta.wgsl.
@group(0) @binding(6) var<storage, read> v: array<io>;                      // [B, T, H, Dv]
@group(0) @binding(7) var<storage, read> control: array<f32>;               // [B, T, H, 2 + K]
@group(0) @binding(8) var<storage, read> slots: array<vec4<u32>>;           // [B H, chunks, C]
@group(0) @binding(9) var<storage, read> carried: array<f32>;               // [B H, chunks, C, Dv]
@group(0) @binding(10) var<storage, read_write> o: array<io>;               // [B, T, H, Dv]

const TILE: u32 = 16u;       // sources staged at once
const TILES_ACROSS: u32 = (VALUE_DIM + 63u) / 64u;

var<workgroup> weights: array<f32, TILE * 64u>;    // [TILE sources][64 tokens]
var<workgroup> values: array<f32, TILE * 64u>;     // [TILE sources][64 columns]

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let at = group_index(group);
    let across = at % TILES_ACROSS * 64u;
    let chunk = at / TILES_ACROSS % params.chunks;
    let sequence = at / TILES_ACROSS / params.chunks;
    if (sequence >= params.sequences) {
        return;
    }
    let first = chunk_token(chunk);
    let valid = chunk_valid(sequence, chunk);
    let cell = cell_of(sequence, chunk);
    let x = lane % 16u;
    let y = lane / 16u;
    var sum = array<vec4<f32>, 4>();
    for (var source = 0u; source < valid; source += TILE) {
        // 1. What 64 tokens mix from 16 sources: thread (x, y) has tokens y + 16 r against source x.
        let mixed = mix(sequence, chunk, source, valid, lane);
        workgroupBarrier();
        // 2. Read weights.
        for (var r = 0u; r < 4u; r++) {
            let t = y + 16u * r;
            let s = source + x;
            var w = 0.0;
            if (t < valid && s <= t) {
                let rank = rank_of_token(slots[cell * CHUNK + t], s);
                w = control[control_at(sequence, first + t) + 2u + rank] * mixed[r];
            }
            weights[x * 64u + t] = w;
        }
        for (var e = lane; e < TILE * 64u; e += 256u) {
            let s = source + e / 64u;
            let column = across + e % 64u;
            var value = 0.0;
            if (s < valid && column < VALUE_DIM) {
                value = f32(v[value_at(sequence, first + s) + column]);
            }
            values[e] = value;
        }
        workgroupBarrier();
        // 3. Their values. A source after the token is left out, not multiplied by 0: it may not be finite.
        for (var i = 0u; i < unrolled(TILE); i++) {
            let line = i * 64u;
            let value = vec4<f32>(values[line + x], values[line + 16u + x], values[line + 32u + x], values[line + 48u + x]);
            for (var r = 0u; r < 4u; r++) {
                if (source + i <= y + 16u * r) {
                    sum[r] += weights[line + y + 16u * r] * value;
                }
            }
        }
    }
    for (var r = 0u; r < 4u; r++) {
        let t = y + 16u * r;
        for (var m = 0u; m < 4u; m++) {
            let column = across + x + 16u * m;
            if (t < CHUNK && first + t < params.tokens && column < VALUE_DIM) {
                var out = 0.0;
                if (t < valid) {
                    out = carried[(cell * CHUNK + t) * VALUE_DIM + column] + sum[r][m];
                }
                o[value_at(sequence, first + t) + column] = io(out);
            }
        }
    }
}
