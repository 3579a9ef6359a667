// The read weight that every token gives every state its chunk was entered with: lambda_{t, rank_t(i)}.
@group(0) @binding(3) var<storage, read> control: array<f32>;               // [B, T, H, 2 + K]
@group(0) @binding(4) var<storage, read> slots: array<vec4<u32>>;           // [B H, chunks, C]
@group(0) @binding(5) var<storage, read> entries: array<vec2<u32>>;         // [B H, chunks + 1, 1 + K]
@group(0) @binding(6) var<storage, read_write> read_weights: array<f32>;    // [B H, chunks, C, K], 0 where there is none

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let at = group_index(group);
    let sequence = at / params.chunks;
    if (sequence >= params.sequences) {
        return;
    }
    let chunk = at % params.chunks;
    let first = chunk_token(chunk);
    let cell = cell_of(sequence, chunk);
    let entered = entries[entry_at(sequence, chunk)].x;
    let valid = chunk_valid(sequence, chunk);
    for (var e = lane; e < CHUNK * CAPACITY; e += 256u) {
        let t = e / CAPACITY;
        let i = e % CAPACITY;
        var weight = 0.0;
        if (t < valid && i < entered) {
            let rank = rank_of_entered(slots[cell * CHUNK + t], i);
            weight = control[control_at(sequence, first + t) + 2u + rank];
        }
        read_weights[cell * CHUNK * CAPACITY + e] = weight;
    }
}
