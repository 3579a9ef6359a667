// The matrix work of a call's one token, one group a sequence and slice of columns: every state's transition, merge and
// write as step_decide decided, and the readout.
@group(0) @binding(3) var<storage, read> q: array<io>;                     // [B, 1, G, Dk]
@group(0) @binding(4) var<storage, read> k: array<io>;                     // [B, 1, G, Dk]
@group(0) @binding(5) var<storage, read> v: array<columns_io>;             // [B, 1, H, Dv]
@group(0) @binding(6) var<storage, read> control: array<f32>;              // [B, 1, H, 2 + K]
@group(0) @binding(7) var<storage, read_write> states: array<columns>;     // [B H, K, Dk, Dv] by place
@group(0) @binding(8) var<storage, read> scalars: array<u32>;              // [B H, SCALARS]
@group(0) @binding(9) var<storage, read> changes: array<u32>;              // [B H, CHANGE]
@group(0) @binding(10) var<storage, read_write> o: array<columns_io>;      // [B, 1, H, Dv]

const SLICES_OF_ROW: u32 = (ROW + SLICE - 1u) / SLICE;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let index = group_index(group);
    let sequence = index / SLICES_OF_ROW;
    if (sequence >= params.sequences) {
        return;
    }
    let t = params.first_token;
    let own = thread_of(SLICES, sequence, lane, index % SLICES_OF_ROW * SLICE);
    var read = columns();
    if (t < length_of(sequence)) {
        let live = live_states(scalars[scalar_at(sequence)]);
        let at = change_at(sequence);
        let made = Change(false, changes[at], changes[at + 1u], changes[at + 2u]);
        load_key(sequence, t, lane);
        load_reads(sequence, t, lane);
        if (lane < CAPACITY) {
            stale[lane] = control[control_at(sequence, t)];
            place[lane] = place_in_cache(scalars[scalar_at(sequence) + 3u + 3u * lane]);
            freed[lane] = changes[at + 3u + lane];
        }
        workgroupBarrier();
        read = move_states(own, t, live, made, true);
    }
    put(own, t, read);
}
