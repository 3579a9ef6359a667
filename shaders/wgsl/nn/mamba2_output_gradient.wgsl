// Mamba-2's output backwards: y = weight norm((o + D x) SiLU(z)). One group of invocations a row and group of the norm.
@group(0) @binding(1) var<storage, read> o: array<io>;                      // [rows, H, Dv]
@group(0) @binding(2) var<storage, read> mixed: array<f32>;                 // [rows, H Dv + 2 G Dk] x, B, C
@group(0) @binding(3) var<storage, read> projected: array<f32>;             // [rows, STRIDE], z from column GATE on
@group(0) @binding(4) var<storage, read> heads: array<f32>;                 // [3, H] dt_bias, decay rates, D
@group(0) @binding(5) var<storage, read> weight: array<f32>;                // [H Dv]
@group(0) @binding(6) var<storage, read_write> d: array<f32>;               // [rows, H Dv] by y, then by o + D x
@group(0) @binding(7) var<storage, read_write> d_projected: array<f32>;     // [rows, STRIDE], z's columns are written
@group(0) @binding(8) var<storage, read_write> terms: array<f32>;           // [rows, H Dv] a row's share of the weight's gradient

const INNER: u32 = HEADS * VALUE_DIM;
const MIXED: u32 = INNER + 2u * GROUPS * KEY_DIM;
const PART: u32 = INNER / NORM_GROUPS;

// o + D x.
fn skipped(row: u32, e: u32) -> f32 {
    return f32(o[row * INNER + e]) + heads[2u * HEADS + e / VALUE_DIM] * mixed[row * MIXED + e];
}

// The invocation's share of |x|^2 and of <x, weight d>, x = (o + D x) SiLU(z) in units.
fn shares(row: u32, first: u32, lane: u32, unit: f32) -> vec2<f32> {
    var share = vec2<f32>();
    for (var e = first + lane; e < first + PART; e += 256u) {
        let value = skipped(row, e) * silu(projected[row * STRIDE + GATE + e]) * unit;
        share += vec2<f32>(value * value, d[row * INNER + e] * weight[e] * value);
    }
    return share;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let at = group_index(group);
    let row = at / NORM_GROUPS;
    if (row >= layer.rows) {
        return;
    }
    let first = at % NORM_GROUPS * PART;
    var share = shares(row, first, lane, 1.0);
    var mean = group_sum(lane, share.x) / f32(PART) + EPSILON;
    let unit = unit_of(mean);
    if (unit != 1.0) {
        share = shares(row, first, lane, unit);
        mean = group_sum(lane, share.x) / f32(PART) + in_units(EPSILON, unit);
    }
    let scale = 1.0 / root_of(mean);
    let pull = group_sum(lane, share.y) * scale * scale / f32(PART);
    for (var e = first + lane; e < first + PART; e += 256u) {
        let z = projected[row * STRIDE + GATE + e];
        let before = skipped(row, e);
        let value = before * silu(z) * unit;
        let d_y = d[row * INNER + e];
        let d_value = scale * (d_y * weight[e] - value * pull);
        terms[row * INNER + e] = d_y * value * scale;
        d_projected[row * STRIDE + GATE + e] = d_value * (before * unit) * silu_slope(z);
        d[row * INNER + e] = unit * (d_value * silu(z));
    }
}
