// Running log decay inside every chunk: decay[t] = sum of g over the chunk's tokens up to t.
@group(0) @binding(3) var<storage, read> control: array<f32>;        // [B, T, H, 2 + K]
@group(0) @binding(4) var<storage, read_write> decay: array<f32>;    // [B H, chunks, C]

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let at = group_index(group) * 64u + lane;
    let sequence = at / params.chunks;
    if (sequence >= params.sequences) {
        return;
    }
    let chunk = at % params.chunks;
    let valid = chunk_valid(sequence, chunk);
    let base = cell_of(sequence, chunk) * CHUNK;
    var sum = 0.0;
    for (var i = 0u; i < CHUNK; i++) {
        if (i < valid) {
            sum += log_decay(control[control_at(sequence, chunk_token(chunk) + i)]);
        }
        decay[base + i] = sum;
    }
}
