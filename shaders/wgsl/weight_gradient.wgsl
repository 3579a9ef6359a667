// The gradients by the read weights: everything that a token reads from a rank, against do_t. One group a chunk, one
// thread a token; sources are walked from the newest, so that a rank ends where its state begins.
@group(0) @binding(3) var<storage, read> slots: array<vec4<u32>>;               // [B H, chunks, C]
@group(0) @binding(4) var<storage, read> entries: array<vec2<u32>>;             // [B H, chunks + 1, 1 + K]
@group(0) @binding(5) var<storage, read> mix_gradients: array<f32>;             // [B H, chunks, 3, C, C]
@group(0) @binding(6) var<storage, read> dots: array<f32>;                      // [B H, chunks, DOTS]
@group(0) @binding(7) var<storage, read_write> d_control: array<f32>;           // [B, T, H, 2 + K]

@compute @workgroup_size(CHUNK)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) t: u32) {
    let at = group_index(group);
    let sequence = at / params.chunks;
    let chunk = at % params.chunks;
    let token = chunk_token(chunk) + t;
    if (sequence >= params.sequences || token >= params.tokens) {
        return;
    }
    let cell = cell_of(sequence, chunk);
    let record = control_at(sequence, token) + 2u;
    var rank = 0u;
    if (t < chunk_valid(sequence, chunk)) {
        let starts = slots[cell * CHUNK + t];
        var sum = 0.0;
        for (var s = t + 1u; s > 0u; s--) {
            sum += mix_gradients[mix_at(cell, READ_MIX, t, s - 1u)];
            if (has_bit(starts, 63u + s) && rank < CAPACITY) {
                d_control[record + rank] = sum;
                rank++;
                sum = 0.0;
            }
        }
        for (var i = entries[entry_at(sequence, chunk)].x; i > 0u; i--) {
            sum += read_dot(cell, t, i - 1u);
            if (has_bit(starts, i - 1u) && rank < CAPACITY) {
                d_control[record + rank] = sum;
                rank++;
                sum = 0.0;
            }
        }
    }
    for (; rank < CAPACITY; rank++) {
        d_control[record + rank] = 0.0;
    }
}
