// Backwards through v = Delta x, g = -e^A_log Delta, the skip D x and Delta = clamp(softplus(dt + bias)). A team of 32 invocations
// has a row's head.
@group(0) @binding(1) var<storage, read> mixed: array<f32>;                 // [rows, H Dv + 2 G Dk] x, B, C
@group(0) @binding(2) var<storage, read> projected: array<f32>;             // [rows, STRIDE]
@group(0) @binding(3) var<storage, read> heads: array<f32>;                 // [3, H] dt_bias, decay rates, D
@group(0) @binding(4) var<storage, read> d_v: array<f32>;                   // [rows, H, Dv]
@group(0) @binding(5) var<storage, read> d_o: array<f32>;                   // [rows, H, Dv] by o + D x
@group(0) @binding(6) var<storage, read_write> d_control: array<f32>;       // [rows, H, 2 + K] by g, beta; then shares of those by A_log, D
@group(0) @binding(7) var<storage, read_write> d_mixed: array<f32>;         // [rows, H Dv + 2 G Dk], x's columns are written
@group(0) @binding(8) var<storage, read_write> d_projected: array<f32>;     // [rows, STRIDE], dt's columns are written

const INNER: u32 = HEADS * VALUE_DIM;
const MIXED: u32 = INNER + 2u * GROUPS * KEY_DIM;
const CONTROL: u32 = CAPACITY + 2u;
const PITCH: u32 = 33u;    // one more than a team, to spread the banks

var<workgroup> products: array<vec2<f32>, 8u * PITCH>;    // [8 teams][32] x d_v and x d_o

// Delta of a sum of dt and its bias. A clamp would hide NaN.
fn step_size(size: f32) -> f32 {
    return select(clamp(size, DT_MIN, DT_MAX), size, not_a_number(size));
}

// Whether the clamp holds it, so that its derivative is 0.
fn is_held(size: f32) -> bool {
    return !not_a_number(size) && (size < DT_MIN || size > DT_MAX);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    let team = index / 32u;
    let lane = index % 32u;
    let at = group_index(group) * 8u + team;
    let row = at / HEADS;
    let head = at % HEADS;
    let here = row < layer.rows;
    var step = 0.0;
    var size = 0.0;
    var product = vec2<f32>();
    if (here) {
        step = projected[row * STRIDE + DECAY + head] + heads[head];
        size = softplus(step);
        for (var e = lane; e < VALUE_DIM; e += 32u) {
            let x = mixed[row * MIXED + head * VALUE_DIM + e];
            let d = vec2<f32>(d_v[at * VALUE_DIM + e], d_o[at * VALUE_DIM + e]);
            product += x * d;
            d_mixed[row * MIXED + head * VALUE_DIM + e] = step_size(size) * d.x + heads[2u * HEADS + head] * d.y;
        }
    }
    products[team * PITCH + lane] = product;
    workgroupBarrier();
    if (lane > 0u || !here) {
        return;
    }
    var sum = vec2<f32>();
    for (var i = 0u; i < 32u; i++) {
        sum += products[team * PITCH + i];
    }
    let d_g = d_control[at * CONTROL];
    let rate = heads[HEADS + head];
    let d_step = sum.x * sigmoid(step) + d_g * decay_slope(rate, step, size);
    d_projected[row * STRIDE + DECAY + head] = select(d_step, 0.0, is_held(size));
    d_control[at * CONTROL] = d_g * decay_of(rate, step, step_size(size));
    d_control[at * CONTROL + 1u] = sum.y;
}
