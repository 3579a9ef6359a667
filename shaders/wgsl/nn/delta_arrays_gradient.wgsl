// Backwards through Gated DeltaNet's q and k of unit length, g = -e^A_log softplus(a + bias) and beta = MOST sigmoid(b).
@group(0) @binding(1) var<storage, read> mixed: array<f32>;                 // [rows, 2 G Dk + H Dv] q, k, v
@group(0) @binding(2) var<storage, read> projected: array<f32>;             // [rows, STRIDE]
@group(0) @binding(3) var<storage, read> heads: array<f32>;                 // [2, H] dt_bias, decay rates
@group(0) @binding(4) var<storage, read> d_q: array<f32>;                   // [rows, G, Dk]
@group(0) @binding(5) var<storage, read> d_k: array<f32>;                   // [rows, G, Dk]
@group(0) @binding(6) var<storage, read_write> d_control: array<f32>;       // [rows, H, 2 + K] by g, beta; then a share of that by A_log in g's place
@group(0) @binding(7) var<storage, read_write> d_mixed: array<f32>;         // [rows, 2 G Dk + H Dv], q's and k's columns are written
@group(0) @binding(8) var<storage, read_write> d_projected: array<f32>;     // [rows, STRIDE], a's and b's columns are written

const KEYS: u32 = GROUPS * KEY_DIM;
const MIXED: u32 = 2u * KEYS + HEADS * VALUE_DIM;
const CONTROL: u32 = CAPACITY + 2u;
const ALL: u32 = 2u * GROUPS + (HEADS + 255u) / 256u;    // groups of a row: one a query, one a key, then the heads
const L2_EPSILON: f32 = 1e-6;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let at = group_index(group);
    let row = at / ALL;
    let part = at % ALL;
    if (row >= layer.rows) {
        return;
    }
    if (part < 2u * GROUPS) {
        let e = part * KEY_DIM + lane;
        var x = 0.0;
        var d = 0.0;
        if (lane < KEY_DIM) {
            x = mixed[row * MIXED + e];
            if (part < GROUPS) {
                d = d_q[row * KEYS + e] / sqrt(f32(KEY_DIM));
            } else {
                d = d_k[row * KEYS + e - KEYS];
            }
        }
        var square = group_sum(lane, x * x) + L2_EPSILON;
        let unit = unit_of(square);
        if (unit != 1.0) {
            x *= unit;
            square = group_sum(lane, x * x) + in_units(L2_EPSILON, unit);
        }
        let root = root_of(square);
        let pull = group_sum(lane, d * x) / square;
        if (lane < KEY_DIM) {
            d_mixed[row * MIXED + e] = unit * ((d - x * pull) / root);
        }
        return;
    }
    let head = (part - 2u * GROUPS) * 256u + lane;
    if (head < HEADS) {
        let first = (row * HEADS + head) * CONTROL;
        let step = projected[row * STRIDE + DECAY + head] + heads[head];
        let rate = heads[HEADS + head];
        let size = softplus(step);
        d_projected[row * STRIDE + DECAY + head] = d_control[first] * decay_slope(rate, step, size);
        d_projected[row * STRIDE + STRENGTH + head] = d_control[first + 1u] * MOST * sigmoid_slope(projected[row * STRIDE + STRENGTH + head]);
        d_control[first] *= decay_of(rate, step, size);
    }
}
