// Gated DeltaNet's output backwards: y = weight norm(o) SiLU(gate) for every head. One group of invocations a row and head.
@group(0) @binding(1) var<storage, read> o: array<io>;                      // [rows, H, Dv]
@group(0) @binding(2) var<storage, read> projected: array<f32>;             // [rows, STRIDE], the gate from column GATE on
@group(0) @binding(3) var<storage, read> weight: array<f32>;                // [Dv]
@group(0) @binding(4) var<storage, read_write> d: array<f32>;               // [rows, H, Dv] by y, then by o
@group(0) @binding(5) var<storage, read_write> d_projected: array<f32>;     // [rows, STRIDE], the gate's columns are written
@group(0) @binding(6) var<storage, read_write> terms: array<f32>;           // [rows, H, Dv] a head's share of the weight's gradient

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let head = group_index(group);
    let row = head / HEADS;
    if (row >= layer.rows) {
        return;
    }
    let here = lane < VALUE_DIM;
    let e = min(lane, VALUE_DIM - 1u);
    let at = head * VALUE_DIM + e;
    let column = row * STRIDE + GATE + head % HEADS * VALUE_DIM + e;
    let value = select(0.0, f32(o[at]), here);
    let d_y = d[at];
    var gate = 1.0;
    var slope = 0.0;
    if (GATED) {
        gate = silu(projected[column]);
        slope = silu_slope(projected[column]);
    }
    let d_weighted = d_y * gate * weight[e];
    let scale = 1.0 / sqrt(group_sum(lane, value * value) / f32(VALUE_DIM) + EPSILON);
    let pull = group_sum(lane, d_weighted * value) * scale * scale / f32(VALUE_DIM);
    if (!here) {
        return;
    }
    terms[at] = d_y * gate * value * scale;
    if (GATED) {
        d_projected[column] = d_y * value * scale * weight[e] * slope;
    }
    d[at] = scale * (d_weighted - value * pull);
}
