// Mamba-2's output: the norm, by group, of (o + D x) SiLU(z). One group of invocations a row and group of the norm.
@group(0) @binding(1) var<storage, read> o: array<io>;                 // [rows, H, Dv]
@group(0) @binding(2) var<storage, read> mixed: array<f32>;            // [rows, H Dv + 2 G Dk] x, B, C
@group(0) @binding(3) var<storage, read> projected: array<f32>;        // [rows, STRIDE], z from column GATE on
@group(0) @binding(4) var<storage, read> heads: array<f32>;            // [3, H] dt_bias, decay rates, D
@group(0) @binding(5) var<storage, read> weight: array<f32>;           // [H Dv]
@group(0) @binding(6) var<storage, read_write> y: array<f32>;          // [rows, H Dv]

const INNER: u32 = HEADS * VALUE_DIM;
const MIXED: u32 = INNER + 2u * GROUPS * KEY_DIM;
const PART: u32 = INNER / NORM_GROUPS;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let at = group_index(group);
    let row = at / NORM_GROUPS;
    if (row >= layer.rows) {
        return;
    }
    let first = at % NORM_GROUPS * PART;
    var square = 0.0;
    for (var e = first + lane; e < first + PART; e += 256u) {
        let skip = heads[2u * HEADS + e / VALUE_DIM] * mixed[row * MIXED + e];
        let value = (f32(o[row * INNER + e]) + skip) * silu(projected[row * STRIDE + GATE + e]);
        y[row * INNER + e] = value;
        square += value * value;
    }
    var mean = group_sum(lane, square) / f32(PART) + EPSILON;
    let unit = unit_of(mean);
    if (unit != 1.0) {
        square = 0.0;
        for (var e = first + lane; e < first + PART; e += 256u) {
            let value = y[row * INNER + e] * unit;
            square += value * value;
        }
        mean = group_sum(lane, square) / f32(PART) + in_units(EPSILON, unit);
    }
    let scale = 1.0 / root_of(mean);
    for (var e = first + lane; e < first + PART; e += 256u) {
        y[row * INNER + e] = y[row * INNER + e] * unit * (scale * weight[e]);
    }
}
