// The root-mean-square norm backwards, one group a row; dx is added to what it holds if RESIDUAL.
@group(0) @binding(1) var<storage, read> x: array<f32>;               // [rows, WIDTH]
@group(0) @binding(2) var<storage, read> weight: array<f32>;          // [WIDTH]
@group(0) @binding(3) var<storage, read> d_y: array<f32>;             // [rows, WIDTH]
@group(0) @binding(4) var<storage, read_write> d_x: array<f32>;       // [rows, WIDTH]
@group(0) @binding(5) var<storage, read_write> terms: array<f32>;     // [rows, WIDTH] a row's share of the weight's gradient

// The invocation's share of |x|^2 and of <x, weight d_y>, x in units.
fn shares(first: u32, lane: u32, unit: f32) -> vec2<f32> {
    var share = vec2<f32>();
    for (var e = lane; e < WIDTH; e += 256u) {
        let value = x[first + e] * unit;
        share += vec2<f32>(value * value, d_y[first + e] * weight[e] * value);
    }
    return share;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = group_index(group);
    if (row >= layer.rows) {
        return;
    }
    let first = row * WIDTH;
    var share = shares(first, lane, 1.0);
    var mean = group_sum(lane, share.x) / f32(WIDTH) + EPSILON;
    let unit = unit_of(mean);
    if (unit != 1.0) {
        share = shares(first, lane, unit);
        mean = group_sum(lane, share.x) / f32(WIDTH) + in_units(EPSILON, unit);
    }
    let scale = 1.0 / root_of(mean);
    let pull = group_sum(lane, share.y) * scale * scale / f32(WIDTH);
    for (var e = lane; e < WIDTH; e += 256u) {
        let value = x[first + e] * unit;
        let d = d_y[first + e];
        terms[first + e] = d * value * scale;
        var d_value = unit * (scale * (d * weight[e] - value * pull));
        if (RESIDUAL) {
            d_value += d_x[first + e];
        }
        d_x[first + e] = d_value;
    }
}
