// The gradient by every head's threshold: -sum of dL/dgamma_t gamma_t (1 - gamma_t) / theta over all tokens, with
// gamma_t = sigma((I_t - tau) / theta). One group a head.
struct Gate {
    theta: f32,
}

@group(0) @binding(3) var<uniform> gate: Gate;
@group(0) @binding(4) var<storage, read> trace: array<vec2<u32>>;               // [B H, T] (score, event)
@group(0) @binding(5) var<storage, read> gate_gradients: array<f32>;            // [B H, T]
@group(0) @binding(6) var<storage, read_write> d_tau: array<f32>;               // [H]

var<workgroup> sums: array<f32, 256>;

// gamma (1 - gamma) / theta; 0 where the score is not finite.
fn slope(score: f32, tau: f32) -> f32 {
    if (non_finite(score)) {
        return 0.0;
    }
    let z = exp(-min(abs(score - tau), 80.0 * gate.theta) / gate.theta);
    return z / ((1.0 + z) * (1.0 + z) * gate.theta);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let head = group_index(group);
    if (head >= HEADS) {
        return;
    }
    var sum = 0.0;
    for (var sequence = head; sequence < params.sequences; sequence += HEADS) {
        let tau = tau_of(sequence);
        let row = sequence * params.tokens;
        for (var t = lane; t < min(length_of(sequence), params.tokens); t += 256u) {
            sum -= gate_gradients[row + t] * slope(bitcast<f32>(trace[row + t].x), tau);
        }
    }
    sums[lane] = sum;
    for (var half = 128u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if (lane < half) {
            sums[lane] += sums[lane + half];
        }
    }
    if (lane == 0u) {
        d_tau[head] = sums[0];
    }
}
