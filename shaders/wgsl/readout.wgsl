// What every token reads from the states its chunk was entered with:
// carried_t = sum_i lambda_{t, rank_t(i)} e^{A_t} q_t' S_i, one tiled product a state (docs/algorithm.md, Chunkwise form);
// with q~_t instead of e^{A_t} q_t for the delta rule.
@group(0) @binding(4) var<storage, read> control: array<f32>;               // [B, T, H, 2 + K]
@group(0) @binding(5) var<storage, read> decay: array<f32>;                 // [B H, chunks, C]
@group(0) @binding(6) var<storage, read> slots: array<vec4<u32>>;           // [B H, chunks, C]
@group(0) @binding(7) var<storage, read> entries: array<vec2<u32>>;         // [B H, chunks + 1, 1 + K]
@group(0) @binding(8) var<storage, read> versions: array<io>;               // [B H, chunks, K, Dk, Dv] by place
@group(0) @binding(9) var<storage, read_write> carried: array<f32>;         // [B H, chunks, C, Dv]

const TILE: u32 = 16u;
const TILES_ACROSS: u32 = (VALUE_DIM + 63u) / 64u;

var<workgroup> queries: array<f32, TILE * 64u>;    // [TILE][64 tokens]
var<workgroup> matrix: array<f32, TILE * 64u>;     // [TILE][64 columns]
var<workgroup> weight: array<f32, 64>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let at = group_index(group);
    let across = at % TILES_ACROSS * 64u;
    let chunk = at / TILES_ACROSS % params.chunks;
    let sequence = at / TILES_ACROSS / params.chunks;
    if (sequence >= params.sequences) {
        return;
    }
    let entry = entry_at(sequence, chunk);
    let entered = entries[entry].x;
    let valid = entries[entry].y;
    let first = chunk_token(chunk);
    let cell = cell_of(sequence, chunk);
    let x = lane % 16u;
    let y = lane / 16u;
    var sum = array<vec4<f32>, 4>();
    for (var i = 0u; i < entered; i++) {
        let record = entries[entry + 1u + i];
        let version = ((record.x >> 8u) + sequence * params.segment_chunks) * CAPACITY + (record.x & 255u);
        workgroupBarrier();
        if (lane < 64u) {
            var w = 0.0;
            if (lane < valid) {
                let rank = rank_of_entered(slots[cell * CHUNK + lane], i);
                w = control[control_at(sequence, first + lane) + 2u + rank];
                if (!DELTA) {
                    w *= exp(decay[cell * CHUNK + lane] + bitcast<f32>(record.y));
                }
            }
            weight[lane] = w;
        }
        for (var row = 0u; row < KEY_DIM; row += TILE) {
            workgroupBarrier();
            for (var e = lane; e < TILE * 64u; e += 256u) {
                let t = e / TILE;
                let d = row + e % TILE;
                var scaled = 0.0;
                if (t < valid && d < KEY_DIM) {
                    scaled = weight[t] * query(sequence, chunk, t, d);
                }
                queries[(e % TILE) * 64u + t] = scaled;
                let column = across + e % 64u;
                var m = 0.0;
                if (row + e / 64u < KEY_DIM && column < VALUE_DIM) {
                    m = f32(versions[version * STATE + (row + e / 64u) * VALUE_DIM + column]);
                }
                matrix[e] = m;
            }
            workgroupBarrier();
            for (var d = 0u; d < unrolled(TILE); d++) {
                let s = vec4<f32>(matrix[d * 64u + x], matrix[d * 64u + 16u + x], matrix[d * 64u + 32u + x], matrix[d * 64u + 48u + x]);
                for (var r = 0u; r < 4u; r++) {
                    sum[r] += queries[d * 64u + y + 16u * r] * s;
                }
            }
        }
    }
    for (var r = 0u; r < 4u; r++) {
        let t = y + 16u * r;
        for (var m = 0u; m < 4u; m++) {
            let column = across + x + 16u * m;
            if (t < valid && column < VALUE_DIM) {
                carried[(cell * CHUNK + t) * VALUE_DIM + column] = sum[r][m];
            }
        }
    }
}
