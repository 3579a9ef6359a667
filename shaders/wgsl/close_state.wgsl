// Copies the open states that the delta rule's scan had to measure back to the cache. The sums of chunk_state_delta round
// relative to what was erased in the chunk, so of a state that is nearly erased they keep little (docs/algorithm.md, Score).
@group(0) @binding(3) var<storage, read> open: array<f32>;             // [B H, 2 Dk Dv + 1]
@group(0) @binding(4) var<storage, read> scalars: array<u32>;          // [B H, SCALARS]
@group(0) @binding(5) var<storage, read_write> states: array<f32>;     // [B H, K, Dk, Dv] by place

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let sequence = group_index(group);
    if (sequence >= params.sequences) {
        return;
    }
    let base = sequence * OPEN;
    let record = scalar_at(sequence);
    let count = live_states(scalars[record]);
    if (open[base + STATE] != MEASURED || count == 0u) {
        return;
    }
    let place = place_in_cache(scalars[record + 3u * count]);
    let target_at = (sequence * CAPACITY + place) * STATE;
    for (var e = lane; e < STATE; e += 256u) {
        states[target_at + e] = open[base + e];
    }
}
