// What a Gated DeltaNet mixer gives the operator: q and k of unit length, q scaled by Dk^-1/2, v, g = -e^A_log softplus(a + bias),
// beta = MOST sigmoid(b) and lambda.
@group(0) @binding(5) var<storage, read> mixed: array<f32>;            // [rows, 2 G Dk + H Dv] q, k, v
@group(0) @binding(6) var<storage, read> heads: array<f32>;            // [2, H] dt_bias, decay rates
@group(0) @binding(7) var<storage, read_write> q: array<io>;           // [rows, G, Dk]
@group(0) @binding(8) var<storage, read_write> k: array<io>;           // [rows, G, Dk]
@group(0) @binding(9) var<storage, read_write> v: array<io>;           // [rows, H, Dv]
@group(0) @binding(10) var<storage, read_write> control: array<f32>;   // [rows, H, 2 + K]

const KEYS: u32 = GROUPS * KEY_DIM;
const INNER: u32 = HEADS * VALUE_DIM;
const CONTROL: u32 = CAPACITY + 2u;
const REST: u32 = INNER + HEADS * CONTROL;                   // values of a row of v and control
const ALL: u32 = 2u * GROUPS + (REST + 255u) / 256u;         // groups of a row: one a query, one a key, then the rest
const L2_EPSILON: f32 = 1e-6;

fn control_value(row: u32, head: u32, entry: u32) -> f32 {
    let source = row * STRIDE + head;
    if (entry == 0u) {
        let step = projected[source + DECAY] + heads[head];
        return decay_of(heads[HEADS + head], step, softplus(step));
    }
    if (entry == 1u) {
        return MOST * sigmoid(projected[source + STRENGTH]);
    }
    return read_weight(row, head, entry - 2u);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let at = group_index(group);
    let row = at / ALL;
    let part = at % ALL;
    if (row >= layer.rows) {
        return;
    }
    let source = row * (2u * KEYS + INNER);
    if (part < 2u * GROUPS) {
        var x = 0.0;
        if (lane < KEY_DIM) {
            x = mixed[source + part * KEY_DIM + lane];
        }
        var square = group_sum(lane, x * x) + L2_EPSILON;
        let unit = unit_of(square);
        if (unit != 1.0) {
            x *= unit;
            square = group_sum(lane, x * x) + in_units(L2_EPSILON, unit);
        }
        let length = root_of(square);
        if (lane < KEY_DIM) {
            if (part < GROUPS) {
                q[row * KEYS + part * KEY_DIM + lane] = io(x * (1.0 / sqrt(f32(KEY_DIM)) / length));
            } else {
                k[row * KEYS + (part - GROUPS) * KEY_DIM + lane] = io(x * (1.0 / length));
            }
        }
        return;
    }
    let e = (part - 2u * GROUPS) * 256u + lane;
    if (e < INNER) {
        v[row * INNER + e] = io(mixed[source + 2u * KEYS + e]);
    } else if (e < REST) {
        let i = e - INNER;
        control[row * HEADS * CONTROL + i] = control_value(row, i / CONTROL, i % CONTROL);
    }
}
