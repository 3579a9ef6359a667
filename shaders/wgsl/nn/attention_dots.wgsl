// o d_o of every row's head.
@group(0) @binding(1) var<storage, read> o: array<f32>;                // [rows, H, D]
@group(0) @binding(2) var<storage, read> d_o: array<f32>;              // [rows, H, D]
@group(0) @binding(3) var<storage, read_write> dots: array<f32>;       // [rows, H]

// One invocation a head.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let at = group_index(group) * 256u + lane;
    if (at / HEADS >= layer.rows) {
        return;
    }
    var sum = 0.0;
    for (var e = 0u; e < KEY_DIM; e++) {
        sum += o[at * KEY_DIM + e] * d_o[at * KEY_DIM + e];
    }
    dots[at] = sum;
}
