// Copies every sequence's newest state to where boundary_scan carries it on, with a 1 behind it (0: there is none).
@group(0) @binding(3) var<storage, read> states: array<f32>;         // [B H, K, Dk, Dv] by place
@group(0) @binding(4) var<storage, read> scalars: array<u32>;        // [B H, SCALARS]
@group(0) @binding(5) var<storage, read_write> open: array<f32>;     // [B H, 2 Dk Dv + 1]

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let sequence = group_index(group);
    if (sequence >= params.sequences) {
        return;
    }
    let record = scalar_at(sequence);
    let count = live_states(scalars[record]);
    let base = sequence * OPEN;
    if (count > 0u) {
        let place = place_in_cache(scalars[record + 3u * count]);
        let source = (sequence * CAPACITY + place) * STATE;
        for (var e = lane; e < STATE; e += 256u) {
            open[base + e] = states[source + e];
        }
    }
    if (lane == 0u) {
        open[base + STATE] = select(0.0, 1.0, count > 0u);
    }
}
