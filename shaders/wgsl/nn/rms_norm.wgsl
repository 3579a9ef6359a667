// y = weight x / sqrt(mean(x^2) + epsilon), one group a row.
@group(0) @binding(1) var<storage, read> x: array<f32>;             // [rows, WIDTH]
@group(0) @binding(2) var<storage, read> weight: array<f32>;        // [WIDTH]
@group(0) @binding(3) var<storage, read_write> y: array<f32>;       // [rows, WIDTH]

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = group_index(group);
    if (row >= layer.rows) {
        return;
    }
    var square = 0.0;
    for (var e = lane; e < WIDTH; e += 256u) {
        let value = x[row * WIDTH + e];
        square += value * value;
    }
    let scale = 1.0 / sqrt(group_sum(lane, square) / f32(WIDTH) + EPSILON);
    for (var e = lane; e < WIDTH; e += 256u) {
        y[row * WIDTH + e] = x[row * WIDTH + e] * (scale * weight[e]);
    }
}
