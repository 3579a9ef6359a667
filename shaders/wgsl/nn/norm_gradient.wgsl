// The root-mean-square norm backwards, one group a row; dx is added to what it holds if RESIDUAL.
@group(0) @binding(1) var<storage, read> x: array<f32>;               // [rows, WIDTH]
@group(0) @binding(2) var<storage, read> weight: array<f32>;          // [WIDTH]
@group(0) @binding(3) var<storage, read> d_y: array<f32>;             // [rows, WIDTH]
@group(0) @binding(4) var<storage, read_write> d_x: array<f32>;       // [rows, WIDTH]
@group(0) @binding(5) var<storage, read_write> terms: array<f32>;     // [rows, WIDTH] a row's share of the weight's gradient

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = group_index(group);
    if (row >= layer.rows) {
        return;
    }
    let first = row * WIDTH;
    var square = 0.0;
    var product = 0.0;
    for (var e = lane; e < WIDTH; e += 256u) {
        let value = x[first + e];
        square += value * value;
        product += d_y[first + e] * weight[e] * value;
    }
    let scale = 1.0 / sqrt(group_sum(lane, square) / f32(WIDTH) + EPSILON);
    let pull = group_sum(lane, product) * scale * scale / f32(WIDTH);
    for (var e = lane; e < WIDTH; e += 256u) {
        let value = x[first + e];
        let d = d_y[first + e];
        terms[first + e] = d * value * scale;
        var d_value = scale * (d * weight[e] - value * pull);
        if (RESIDUAL) {
            d_value += d_x[first + e];
        }
        d_x[first + e] = d_value;
    }
}
