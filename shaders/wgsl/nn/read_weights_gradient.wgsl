// lambda = softplus(L p + a) backwards, p a column of the projection.
@group(0) @binding(5) var<storage, read> d_control: array<f32>;             // [rows, H, 2 + K] by g, beta, lambda by rank
@group(0) @binding(6) var<storage, read_write> d_projected: array<f32>;     // [rows, STRIDE], lambda's columns are written
@group(0) @binding(7) var<storage, read_write> terms: array<f32>;           // [rows, 2, H, K] a row's share of the gradient by L and a

const CONTROL: u32 = CAPACITY + 2u;
const WEIGHTS: u32 = HEADS * CAPACITY;

// The rank that reads by this index, CAPACITY where none does: level_of the other way round.
fn rank_of(row: u32, index: u32) -> u32 {
    if (!FENWICK || index == 0u) {
        return index;
    }
    let before = position_of(row / layer.tokens) + row % layer.tokens;
    if (index > 32u || ((before >> (index - 1u)) & 1u) == 0u) {
        return CAPACITY;
    }
    return min(1u + countOneBits(before & ((1u << (index - 1u)) - 1u)), CAPACITY);
}

// One invocation a read weight.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let at = group_index(group) * 256u + lane;
    let row = at / WEIGHTS;
    let entry = at % WEIGHTS;
    if (row >= layer.rows) {
        return;
    }
    let rank = rank_of(row, entry % CAPACITY);
    let p = projected[row * STRIDE + LAMBDA + entry];
    let scale = read_weights[entry];
    var d = 0.0;
    if (rank < CAPACITY) {
        d = d_control[(row * HEADS + entry / CAPACITY) * CONTROL + 2u + rank] * sigmoid(scale * p + read_weights[WEIGHTS + entry]);
    }
    d_projected[row * STRIDE + LAMBDA + entry] = d * scale;
    terms[row * 2u * WEIGHTS + entry] = d * p;
    terms[row * 2u * WEIGHTS + WEIGHTS + entry] = d;
}
