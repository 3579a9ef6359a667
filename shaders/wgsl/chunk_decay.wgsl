// Running log decay inside every chunk: decay[t] = sum of g over the chunk's tokens up to t.
@group(0) @binding(3) var<storage, read> control: array<f32>;        // [B, T, H, 2 + K]
@group(0) @binding(4) var<storage, read_write> decay: array<f32>;    // [B H, chunks, C]

var<workgroup> sums: array<f32, CHUNK>;

// One group a chunk, one thread a token.
@compute @workgroup_size(CHUNK)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) t: u32) {
    let at = group_index(group);
    let sequence = at / params.chunks;
    if (sequence >= params.sequences) {
        return;
    }
    let chunk = at % params.chunks;
    let valid = chunk_valid(sequence, chunk);
    var sum = 0.0;
    if (t < valid) {
        sum = log_decay(control[control_at(sequence, chunk_token(chunk) + t)]);
    }
    for (var reach = 1u; reach < CHUNK; reach *= 2u) {
        workgroupBarrier();
        sums[t] = sum;
        workgroupBarrier();
        if (t >= reach) {
            sum += sums[t - reach];
        }
    }
    decay[cell_of(sequence, chunk) * CHUNK + t] = sum;
}
