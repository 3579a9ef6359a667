// The norm of all gradients together, and what it makes of the step: one group. A norm that is not finite skips the step.
@group(0) @binding(2) var<storage, read> squares: array<f32>;          // [count]
@group(0) @binding(3) var<storage, read_write> norm: array<f32>;       // [5] norm, scale of the gradients, 1 if the step is skipped, steps skipped, 0: nothing lost

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    var square = 0.0;
    for (var i = lane; i < layer.count; i += 256u) {
        square += squares[i];
    }
    let sum = group_sum(lane, square);
    if (lane > 0u) {
        return;
    }
    let size = sqrt(sum);
    let finite = (bitcast<u32>(sum) & 0x7f800000u) != 0x7f800000u;
    norm[0] = size;
    norm[1] = select(1.0, step.clip / size, size > step.clip);
    norm[2] = select(1.0, 0.0, finite);
    norm[3] += select(1.0, 0.0, finite);
    norm[4] = 0.0;
}
