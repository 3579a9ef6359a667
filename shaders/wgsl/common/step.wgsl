// The numbers of one optimiser step that all tensors share, written by the host.
struct Step {
    rate: f32,           // r
    decay: f32,          // r w
    beta1: f32,          // how much of the gradients' mean stays
    beta2: f32,          // how much of the squares' mean stays
    epsilon: f32,        // beside the root
    correction1: f32,    // 1 - beta1^t
    correction2: f32,    // 1 - beta2^t
    clip: f32,           // the most that the norm may be
    unscale: f32,        // 1 over what the loss was multiplied by
}

@group(0) @binding(1) var<uniform> step: Step;
