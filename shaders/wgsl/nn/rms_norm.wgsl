// y = weight x / sqrt(mean(x^2) + epsilon), one group a row.
@group(0) @binding(1) var<storage, read> x: array<f32>;             // [rows, WIDTH]
@group(0) @binding(2) var<storage, read> weight: array<f32>;        // [WIDTH]
@group(0) @binding(3) var<storage, read_write> y: array<f32>;       // [rows, WIDTH]

// mean(x^2) + epsilon of a row in squared units.
fn mean_square(row: u32, lane: u32, unit: f32) -> f32 {
    var square = 0.0;
    for (var e = lane; e < WIDTH; e += 256u) {
        let value = x[row * WIDTH + e] * unit;
        square += value * value;
    }
    return group_sum(lane, square) / f32(WIDTH) + in_units(EPSILON, unit);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = group_index(group);
    if (row >= layer.rows) {
        return;
    }
    var mean = mean_square(row, lane, 1.0);
    let unit = unit_of(mean);
    if (unit != 1.0) {
        mean = mean_square(row, lane, unit);
    }
    let scale = 1.0 / root_of(mean);
    for (var e = lane; e < WIDTH; e += 256u) {
        y[row * WIDTH + e] = x[row * WIDTH + e] * unit * (scale * weight[e]);
    }
}
