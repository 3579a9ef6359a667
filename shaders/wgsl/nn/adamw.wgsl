// Adam with decoupled decay, the formula of dla-core's model/training/adamw.rs. Nothing moves in a skipped step.
@group(0) @binding(2) var<storage, read> norm: array<f32>;                // [4] norm, scale of the gradients, 1 if the step is skipped, steps skipped
@group(0) @binding(3) var<storage, read> gradient: array<f32>;            // [count]
@group(0) @binding(4) var<storage, read_write> tensor: array<f32>;        // [count]
@group(0) @binding(5) var<storage, read_write> mean: array<f32>;          // [count] of gradients
@group(0) @binding(6) var<storage, read_write> square: array<f32>;        // [count] of their squares

// One invocation a value.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let at = group_index(group) * 256u + lane;
    if (at >= layer.count || norm[2] != 0.0) {
        return;
    }
    let g = norm[1] * gradient[at];
    let m = step.beta1 * mean[at] + (1.0 - step.beta1) * g;
    let v = step.beta2 * square[at] + (1.0 - step.beta2) * g * g;
    mean[at] = m;
    square[at] = v;
    var x = tensor[at];
    if (at % PERIOD < DECAYED) {
        x -= step.decay * x;
    }
    tensor[at] = x - step.rate * (m / step.correction1) / (sqrt(v / step.correction2) + step.epsilon);
}
