// Gated DeltaNet's output backwards: y = weight norm(o) SiLU(gate) for every head. One group of invocations a row and head.
@group(0) @binding(1) var<storage, read> o: array<io>;                      // [rows, H, Dv]
@group(0) @binding(2) var<storage, read> projected: array<f32>;             // [rows, STRIDE], the gate from column GATE on
@group(0) @binding(3) var<storage, read> weight: array<f32>;                // [Dv]
@group(0) @binding(4) var<storage, read_write> d: array<f32>;               // [rows, H, Dv] by y, then by o
@group(0) @binding(5) var<storage, read_write> d_projected: array<f32>;     // [rows, STRIDE], the gate's columns are written
@group(0) @binding(6) var<storage, read_write> terms: array<f32>;           // [rows, H, Dv] a head's share of the weight's gradient

fn gate_column(row: u32, head: u32, e: u32) -> u32 {
    return row * STRIDE + GATE + head % HEADS * VALUE_DIM + e;
}

// The invocation's share of |o|^2 and of <o, d_o before the norm>, o in units.
fn shares(row: u32, head: u32, lane: u32, unit: f32) -> vec2<f32> {
    var share = vec2<f32>();
    for (var e = lane; e < VALUE_DIM; e += 256u) {
        let at = head * VALUE_DIM + e;
        var d_weighted = d[at] * weight[e];
        if (GATED) {
            d_weighted *= silu(projected[gate_column(row, head, e)]);
        }
        let value = f32(o[at]) * unit;
        share += vec2<f32>(value * value, d_weighted * value);
    }
    return share;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let head = group_index(group);
    let row = head / HEADS;
    if (row >= layer.rows) {
        return;
    }
    var share = shares(row, head, lane, 1.0);
    var mean = group_sum(lane, share.x) / f32(VALUE_DIM) + EPSILON;
    let unit = unit_of(mean);
    if (unit != 1.0) {
        share = shares(row, head, lane, unit);
        mean = group_sum(lane, share.x) / f32(VALUE_DIM) + in_units(EPSILON, unit);
    }
    let scale = 1.0 / root_of(mean);
    let pull = group_sum(lane, share.y) * scale * scale / f32(VALUE_DIM);
    for (var e = lane; e < VALUE_DIM; e += 256u) {
        let at = head * VALUE_DIM + e;
        let value = f32(o[at]) * unit;
        var d_normed = d[at];
        if (GATED) {
            let column = gate_column(row, head, e);
            d_projected[column] = d[at] * value * scale * weight[e] * silu_slope(projected[column]);
            d_normed *= silu(projected[column]);
        }
        terms[at] = d_normed * value * scale;
        d[at] = unit * (scale * (d_normed * weight[e] - value * pull));
    }
}
