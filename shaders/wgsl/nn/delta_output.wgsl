// Gated DeltaNet's output: the norm of every head, by SiLU(gate) if there is one. One group of invocations a row and head.
@group(0) @binding(1) var<storage, read> o: array<io>;                 // [rows, H, Dv]
@group(0) @binding(2) var<storage, read> projected: array<f32>;        // [rows, STRIDE], the gate from column GATE on
@group(0) @binding(3) var<storage, read> weight: array<f32>;           // [Dv]
@group(0) @binding(4) var<storage, read_write> y: array<f32>;          // [rows, H, Dv]

// mean(o^2) + epsilon of a head in squared units.
fn mean_square(at: u32, lane: u32, unit: f32) -> f32 {
    var square = 0.0;
    for (var e = lane; e < VALUE_DIM; e += 256u) {
        let value = f32(o[at * VALUE_DIM + e]) * unit;
        square += value * value;
    }
    return group_sum(lane, square) / f32(VALUE_DIM) + in_units(EPSILON, unit);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let at = group_index(group);
    let row = at / HEADS;
    if (row >= layer.rows) {
        return;
    }
    var mean = mean_square(at, lane, 1.0);
    let unit = unit_of(mean);
    if (unit != 1.0) {
        mean = mean_square(at, lane, unit);
    }
    let scale = 1.0 / root_of(mean);
    for (var e = lane; e < VALUE_DIM; e += 256u) {
        var value = f32(o[at * VALUE_DIM + e]) * unit * scale * weight[e];
        if (GATED) {
            value *= silu(projected[row * STRIDE + GATE + at % HEADS * VALUE_DIM + e]);
        }
        y[at * VALUE_DIM + e] = value;
    }
}
