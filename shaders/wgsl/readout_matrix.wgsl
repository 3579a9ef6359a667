// What every token reads from the states its chunk was entered with, as readout.wgsl, by 16 x 16 x 16 matrix products of
// f16 with f32 sums. Needs CHUNK = 64, Dk a multiple of 16, Dv of 64, subgroups of 32.
//
// For one state after the other the weighted queries lambda e^{A_t} q_t and the state's version are laid out in workgroup
// memory as the factors; the next version is on its way meanwhile.
@group(0) @binding(4) var<storage, read> control: array<f32>;               // [B, T, H, 2 + K]
@group(0) @binding(5) var<storage, read> decay: array<f32>;                 // [B H, chunks, C]
@group(0) @binding(6) var<storage, read> slots: array<vec4<u32>>;           // [B H, chunks, C]
@group(0) @binding(7) var<storage, read> entries: array<vec2<u32>>;         // [B H, chunks + 1, 1 + K]
@group(0) @binding(8) var<storage, read> versions: array<vec4<f16>>;        // [B H, chunks, K, Dk, Dv / 4] by place
@group(0) @binding(9) var<storage, read_write> carried: array<f32>;         // [B H, chunks, C, Dv]

const TILES_ACROSS: u32 = VALUE_DIM / 64u;
const KEYS: u32 = KEY_DIM / 4u;              // quadruples of one query
const LEFT_PITCH: u32 = KEYS + 2u;           // quadruples between rows, off the banks' period
const RIGHT_PITCH: u32 = 18u;
const OWN: u32 = KEYS / 2u;                  // quadruples of the queries that one of 128 threads keeps: half a row

var<workgroup> left: array<vec4<f16>, 64u * LEFT_PITCH>;         // [tokens][Dk]
var<workgroup> right: array<vec4<f16>, KEY_DIM * RIGHT_PITCH>;   // [Dk][64 columns]
var<workgroup> weight: array<f32, 64u * CAPACITY>;               // [states][tokens]

// Where the version of an entered state begins, in quadruples.
fn version_at(sequence: u32, record: u32) -> u32 {
    return (((record >> 8u) + sequence * params.segment_chunks) * CAPACITY + (record & 255u)) * (STATE / 4u);
}

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    // Groups beyond the last do its work again instead of returning: matrix operations want uniform control flow.
    let at = min(group_index(group), params.sequences * params.chunks * TILES_ACROSS - 1u);
    let across = at % TILES_ACROSS * 64u;
    let chunk = at / TILES_ACROSS % params.chunks;
    let sequence = at / TILES_ACROSS / params.chunks;
    let entry = entry_at(sequence, chunk);
    let entered = entries[entry].x;
    let valid = entries[entry].y;
    let first = chunk_token(chunk);
    let cell = cell_of(sequence, chunk);

    for (var e = lane; e < 64u * entered; e += 128u) {
        let t = e % 64u;
        var w = 0.0;
        if (t < valid) {
            let i = e / 64u;
            let rank = rank_of_entered(slots[cell * CHUNK + t], i);
            w = control[control_at(sequence, first + t) + 2u + rank];
            if (!DELTA) {
                w *= exp(decay[cell * CHUNK + t] + bitcast<f32>(entries[entry + 1u + i].y));
            }
        }
        weight[e] = w;
    }
    let token = lane / 2u;
    let half = lane % 2u * OWN;
    var queries = array<vec4<f16>, OWN>();
    if (token < valid) {
        for (var d = 0u; d < OWN; d++) {
            queries[d] = query(sequence, chunk, token, half + d);
        }
    }
    // Of a version, 8 rows of 16 quadruples at a time: this thread's row and quadruple.
    let own_row = lane / 16u;
    let own = lane % 16u;
    let own_at = own_row * (VALUE_DIM / 4u) + across / 4u + own;
    var coming = array<vec4<f16>, KEY_DIM / 8u>();
    if (entered > 0u) {
        let version = version_at(sequence, entries[entry + 1u].x) + own_at;
        for (var r = 0u; r < KEY_DIM / 8u; r++) {
            coming[r] = versions[version + r * 2u * VALUE_DIM];
        }
    }

    // Each subgroup sums 32 tokens by 32 columns.
    let rows = lane / 64u * 32u;
    let columns = lane / 32u % 2u * 8u;
    var sum00 = coop_mat16x16<f32, C>();
    var sum01 = coop_mat16x16<f32, C>();
    var sum10 = coop_mat16x16<f32, C>();
    var sum11 = coop_mat16x16<f32, C>();
    for (var i = 0u; i < entered; i++) {
        workgroupBarrier();
        let w = f16(weight[i * 64u + token]);
        for (var d = 0u; d < OWN; d++) {
            left[token * LEFT_PITCH + half + d] = w * queries[d];
        }
        for (var r = 0u; r < KEY_DIM / 8u; r++) {
            right[(own_row + 8u * r) * RIGHT_PITCH + own] = coming[r];
        }
        workgroupBarrier();
        if (i + 1u < entered) {
            let version = version_at(sequence, entries[entry + 2u + i].x) + own_at;
            for (var r = 0u; r < KEY_DIM / 8u; r++) {
                coming[r] = versions[version + r * 2u * VALUE_DIM];
            }
        }
        for (var step = 0u; step < KEY_DIM / 16u; step++) {
            let a0_at = rows * LEFT_PITCH + step * 4u;
            let a1_at = a0_at + 16u * LEFT_PITCH;
            let b0_at = step * 16u * RIGHT_PITCH + columns;
            let b1_at = b0_at + 4u;
            let a0 = coopLoadT<coop_mat16x16<f16, A>>(&left[a0_at], LEFT_PITCH);
            let a1 = coopLoadT<coop_mat16x16<f16, A>>(&left[a1_at], LEFT_PITCH);
            let b0 = coopLoadT<coop_mat16x16<f16, B>>(&right[b0_at], RIGHT_PITCH);
            let b1 = coopLoadT<coop_mat16x16<f16, B>>(&right[b1_at], RIGHT_PITCH);
            sum00 = coopMultiplyAdd(a0, b0, sum00);
            sum01 = coopMultiplyAdd(a0, b1, sum01);
            sum10 = coopMultiplyAdd(a1, b0, sum10);
            sum11 = coopMultiplyAdd(a1, b1, sum11);
        }
    }
    let c00 = (cell * CHUNK + rows) * VALUE_DIM + across + columns * 4u;
    let c01 = c00 + 16u;
    let c10 = c00 + 16u * VALUE_DIM;
    let c11 = c10 + 16u;
    coopStoreT(sum00, &carried[c00], VALUE_DIM);
    coopStoreT(sum01, &carried[c01], VALUE_DIM);
    coopStoreT(sum10, &carried[c10], VALUE_DIM);
    coopStoreT(sum11, &carried[c11], VALUE_DIM);
}
