// Heads as the mixers take them, from heads as they are trained: decay rates of A_log, the rest as it is.
@group(0) @binding(1) var<storage, read> trained: array<f32>;          // [count / H, H] dt_bias, A_log, and D for Mamba-2
@group(0) @binding(2) var<storage, read_write> heads: array<f32>;      // [count / H, H] dt_bias, decay rates, and D for Mamba-2

// One invocation a value.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let at = group_index(group) * 256u + lane;
    if (at >= layer.count) {
        return;
    }
    let value = trained[at];
    heads[at] = select(value, decay_rate(value), at / HEADS == 1u);
}
