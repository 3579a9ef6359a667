// Adam with decoupled decay, the formula of dla-core's model/training/adamw.rs. Nothing moves in a skipped step.
struct Norm {
    norm: f32,             // of the gradients
    scale: f32,            // what they are scaled by
    skip: f32,             // 1 if the step is skipped
    skipped: f32,          // steps skipped
    lost: atomic<u32>,     // 1 once a finite value has become one that is not
}

@group(0) @binding(2) var<storage, read_write> norm: Norm;                // as the norm's pass left it
@group(0) @binding(3) var<storage, read> gradient: array<f32>;            // [count]
@group(0) @binding(4) var<storage, read_write> tensor: array<f32>;        // [count]
@group(0) @binding(5) var<storage, read_write> mean: array<f32>;          // [count] of gradients
@group(0) @binding(6) var<storage, read_write> square: array<f32>;        // [count] of their squares

// By bits: compilers may take all numbers for finite.
fn finite(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7f800000u) != 0x7f800000u;
}

// One invocation a value.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let at = group_index(group) * 256u + lane;
    if (at >= layer.count || norm.skip != 0.0) {
        return;
    }
    let g = norm.scale * gradient[at];
    let m = step.beta1 * mean[at] + (1.0 - step.beta1) * g;
    let v = step.beta2 * square[at] + (1.0 - step.beta2) * g * g;
    mean[at] = m;
    square[at] = v;
    let before = tensor[at];
    var x = before;
    if (at % PERIOD < DECAYED) {
        x -= step.decay * x;
    }
    let after = x - step.rate * (m / step.correction1) / (sqrt(v / step.correction2) + step.epsilon);
    tensor[at] = after;
    if (finite(before) && !finite(after)) {
        atomicStore(&norm.lost, 1u);
    }
}
