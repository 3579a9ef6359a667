// What a Mamba-2 mixer gives the operator: k = B, q = C, v = Delta x, g = -e^A_log Delta, beta = 1 and lambda.
@group(0) @binding(5) var<storage, read> mixed: array<f32>;            // [rows, H Dv + 2 G Dk] x, B, C
@group(0) @binding(6) var<storage, read> heads: array<f32>;            // [3, H] dt_bias, decay rates, D
@group(0) @binding(7) var<storage, read_write> q: array<io>;           // [rows, G, Dk]
@group(0) @binding(8) var<storage, read_write> k: array<io>;           // [rows, G, Dk]
@group(0) @binding(9) var<storage, read_write> v: array<io>;           // [rows, H, Dv]
@group(0) @binding(10) var<storage, read_write> control: array<f32>;   // [rows, H, 2 + K]

const KEYS: u32 = GROUPS * KEY_DIM;
const INNER: u32 = HEADS * VALUE_DIM;
const CONTROL: u32 = CAPACITY + 2u;
const ALL: u32 = 2u * KEYS + INNER + HEADS * CONTROL;    // values of a row of all four

// Delta of a row's head. A clamp would hide NaN.
fn step_size(row: u32, head: u32) -> f32 {
    let size = softplus(projected[row * STRIDE + DECAY + head] + heads[head]);
    return select(clamp(size, DT_MIN, DT_MAX), size, not_a_number(size));
}

fn control_value(row: u32, head: u32, entry: u32) -> f32 {
    if (entry == 0u) {
        let step = projected[row * STRIDE + DECAY + head] + heads[head];
        return decay_of(heads[HEADS + head], step, step_size(row, head));
    }
    if (entry == 1u) {
        return 1.0;
    }
    return read_weight(row, head, entry - 2u);
}

// One invocation a value.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let at = group_index(group) * 256u + lane;
    let row = at / ALL;
    let e = at % ALL;
    if (row >= layer.rows) {
        return;
    }
    let source = row * (INNER + 2u * KEYS);
    if (e < KEYS) {
        k[row * KEYS + e] = io(mixed[source + INNER + e]);
    } else if (e < 2u * KEYS) {
        q[row * KEYS + e - KEYS] = io(mixed[source + INNER + e]);
    } else if (e < 2u * KEYS + INNER) {
        let i = e - 2u * KEYS;
        v[row * INNER + i] = io(step_size(row, i / VALUE_DIM) * mixed[source + i]);
    } else {
        let i = e - 2u * KEYS - INNER;
        control[row * HEADS * CONTROL + i] = control_value(row, i / CONTROL, i % CONTROL);
    }
}
