// The attention form inside a chunk, as chunk_output.wgsl, by 16 x 16 x 16 matrix products of f16 with f32 sums.
// Needs CHUNK = 64, Dk a multiple of 16, Dv of 64, subgroups of 32.
@group(0) @binding(3) var<storage, read> q: array<vec4<f16>>;               // [B, T, G, Dk / 4]
@group(0) @binding(4) var<storage, read> k: array<vec4<f16>>;               // [B, T, G, Dk / 4]
@group(0) @binding(5) var<storage, read> v: array<vec4<f16>>;               // [B, T, H, Dv / 4]
@group(0) @binding(6) var<storage, read> control: array<f32>;               // [B, T, H, 2 + K]
@group(0) @binding(7) var<storage, read> decay: array<f32>;                 // [B H, chunks, C]
@group(0) @binding(8) var<storage, read> slots: array<vec4<u32>>;           // [B H, chunks, C]
@group(0) @binding(9) var<storage, read> carried: array<vec4<f32>>;         // [B H, chunks, C, Dv / 4]
@group(0) @binding(10) var<storage, read_write> o: array<vec4<f16>>;        // [B, T, H, Dv / 4]

const TILES_ACROSS: u32 = VALUE_DIM / 64u;
const WIDTH: u32 = select(4u, 16u, KEY_DIM % 64u == 0u);     // quadruples of q and k staged at once
const PITCH: u32 = 18u;                                      // quadruples between rows, off the banks' period
const SUMS: u32 = 17u;                                       // the same of sums

var<workgroup> left: array<vec4<f16>, 64u * PITCH>;          // queries [tokens][columns], then weights [tokens][sources]
var<workgroup> right: array<vec4<f16>, 64u * PITCH>;         // keys [sources][columns], then values [sources][columns]
var<workgroup> sums: array<vec4<f32>, 64u * SUMS>;           // [tokens][sources], then [tokens][columns]
var<workgroup> lambda: array<f32, 64u * CAPACITY>;           // [tokens][ranks]
var<workgroup> a: array<f32, 64>;
var<workgroup> not_finite: atomic<u32>;
var<workgroup> careful: u32;                                 // a value of the chunk is not finite

fn finite(x: vec4<f16>) -> bool {
    return !(non_finite(f32(x.x)) || non_finite(f32(x.y)) || non_finite(f32(x.z)) || non_finite(f32(x.w)));
}

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    // Groups beyond the last do its work again instead of returning: matrix operations want uniform control flow.
    let at = min(group_index(group), params.sequences * params.chunks * TILES_ACROSS - 1u);
    let across = at % TILES_ACROSS * 64u;
    let chunk = at / TILES_ACROSS % params.chunks;
    let sequence = at / TILES_ACROSS / params.chunks;
    let first = chunk_token(chunk);
    let valid = chunk_valid(sequence, chunk);
    let cell = cell_of(sequence, chunk);
    // Each subgroup sums 32 tokens by 32 columns.
    let rows = lane / 64u * 32u;
    let columns = lane / 32u % 2u * 32u;
    let c00 = rows * SUMS + columns / 4u;
    let c01 = c00 + 4u;
    let c10 = c00 + 16u * SUMS;
    let c11 = c10 + 4u;

    // 1. Scores of all tokens against all sources.
    if (lane < 64u) {
        a[lane] = decay[cell * CHUNK + lane];
    }
    if (lane == 0u) {
        atomicStore(&not_finite, 0u);
    }
    for (var e = lane; e < 64u * CAPACITY; e += 128u) {
        let t = e / CAPACITY;
        var x = 0.0;
        if (t < valid) {
            x = control[control_at(sequence, first + t) + 2u + e % CAPACITY];
        }
        lambda[e] = x;
    }
    var sum00 = coop_mat16x16<f32, C>();
    var sum01 = coop_mat16x16<f32, C>();
    var sum10 = coop_mat16x16<f32, C>();
    var sum11 = coop_mat16x16<f32, C>();
    for (var column = 0u; column < KEY_DIM / 4u; column += WIDTH) {
        workgroupBarrier();
        for (var e = lane; e < 64u * WIDTH; e += 128u) {
            let t = e / WIDTH;
            let d = e % WIDTH;
            var query = vec4<f16>();
            var key = vec4<f16>();
            if (t < valid) {
                let source = key_at(sequence, first + t) / 4u + column + d;
                query = q[source];
                key = k[source];
            }
            left[t * PITCH + d] = query;
            right[t * PITCH + d] = key;
        }
        workgroupBarrier();
        for (var step = 0u; step < WIDTH / 4u; step++) {
            let a0_at = rows * PITCH + step * 4u;
            let a1_at = a0_at + 16u * PITCH;
            let b0_at = columns * PITCH + step * 4u;
            let b1_at = b0_at + 16u * PITCH;
            let a0 = coopLoadT<coop_mat16x16<f16, A>>(&left[a0_at], PITCH);
            let a1 = coopLoadT<coop_mat16x16<f16, A>>(&left[a1_at], PITCH);
            let b0 = coopLoad<coop_mat16x16<f16, B>>(&right[b0_at], PITCH);
            let b1 = coopLoad<coop_mat16x16<f16, B>>(&right[b1_at], PITCH);
            sum00 = coopMultiplyAdd(a0, b0, sum00);
            sum01 = coopMultiplyAdd(a0, b1, sum01);
            sum10 = coopMultiplyAdd(a1, b0, sum10);
            sum11 = coopMultiplyAdd(a1, b1, sum11);
        }
    }
    coopStoreT(sum00, &sums[c00], SUMS);
    coopStoreT(sum01, &sums[c01], SUMS);
    coopStoreT(sum10, &sums[c10], SUMS);
    coopStoreT(sum11, &sums[c11], SUMS);
    workgroupBarrier();

    // 2. Their weights, and the values.
    for (var e = lane; e < 64u * 16u; e += 128u) {
        let t = e / 16u;
        let s = e % 16u * 4u;
        var w = vec4<f32>();
        if (t < valid && s <= t) {
            let starts = slots[cell * CHUNK + t];
            let score = sums[t * SUMS + e % 16u];
            for (var i = 0u; i < 4u; i++) {
                if (s + i <= t) {
                    w[i] = lambda[t * CAPACITY + rank_of_token(starts, s + i)] * exp(a[t] - a[s + i]) * score[i];
                }
            }
        }
        left[t * PITCH + e % 16u] = vec4<f16>(w);
        var value = vec4<f16>();
        if (t < valid) {
            value = v[(value_at(sequence, first + t) + across) / 4u + e % 16u];
        }
        if (!finite(value)) {
            atomicOr(&not_finite, 1u);
        }
        right[t * PITCH + e % 16u] = value;
    }
    workgroupBarrier();
    if (lane == 0u) {
        careful = atomicLoad(&not_finite);
    }
    for (var e = lane; e < 64u * 16u; e += 128u) {
        let t = e / 16u;
        var x = vec4<f32>();
        if (t < valid) {
            x = carried[((cell * CHUNK + t) * VALUE_DIM + across) / 4u + e % 16u];
        }
        sums[t * SUMS + e % 16u] = x;
    }

    // 3. Weights times values. A value that is not finite must not reach earlier tokens, not even times 0.
    if (workgroupUniformLoad(&careful) == 0u) {
        sum00 = coopLoadT<coop_mat16x16<f32, C>>(&sums[c00], SUMS);
        sum01 = coopLoadT<coop_mat16x16<f32, C>>(&sums[c01], SUMS);
        sum10 = coopLoadT<coop_mat16x16<f32, C>>(&sums[c10], SUMS);
        sum11 = coopLoadT<coop_mat16x16<f32, C>>(&sums[c11], SUMS);
        for (var step = 0u; step < 4u; step++) {
            let a0_at = rows * PITCH + step * 4u;
            let a1_at = a0_at + 16u * PITCH;
            let b0_at = step * 16u * PITCH + columns / 4u;
            let b1_at = b0_at + 4u;
            let a0 = coopLoadT<coop_mat16x16<f16, A>>(&left[a0_at], PITCH);
            let a1 = coopLoadT<coop_mat16x16<f16, A>>(&left[a1_at], PITCH);
            let b0 = coopLoadT<coop_mat16x16<f16, B>>(&right[b0_at], PITCH);
            let b1 = coopLoadT<coop_mat16x16<f16, B>>(&right[b1_at], PITCH);
            sum00 = coopMultiplyAdd(a0, b0, sum00);
            sum01 = coopMultiplyAdd(a0, b1, sum01);
            sum10 = coopMultiplyAdd(a1, b0, sum10);
            sum11 = coopMultiplyAdd(a1, b1, sum11);
        }
        coopStoreT(sum00, &sums[c00], SUMS);
        coopStoreT(sum01, &sums[c01], SUMS);
        coopStoreT(sum10, &sums[c10], SUMS);
        coopStoreT(sum11, &sums[c11], SUMS);
    } else {
        for (var e = lane; e < 64u * 16u; e += 128u) {
            let t = e / 16u;
            var x = sums[t * SUMS + e % 16u];
            for (var s = 0u; s <= t; s++) {
                x += f32(left[t * PITCH + s / 4u][s % 4u]) * vec4<f32>(right[s * PITCH + e % 16u]);
            }
            sums[t * SUMS + e % 16u] = x;
        }
    }
    workgroupBarrier();
    for (var e = lane; e < 64u * 16u; e += 128u) {
        let t = e / 16u;
        if (first + t < params.tokens) {
            let x = select(vec4<f32>(), sums[t * SUMS + e % 16u], t < valid);
            o[(value_at(sequence, first + t) + across) / 4u + e % 16u] = vec4<f16>(x);
        }
    }
}
