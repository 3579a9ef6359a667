// The scalars of a call's one token, one group a sequence: measures it against the open state, decides, and applies the
// capacity rule. step_move then moves the states.
@group(0) @binding(3) var<storage, read> k: array<io>;                     // [B, 1, G, Dk]
@group(0) @binding(4) var<storage, read> v: array<columns_io>;             // [B, 1, H, Dv]
@group(0) @binding(5) var<storage, read> control: array<f32>;              // [B, 1, H, 2 + K]
@group(0) @binding(6) var<storage, read> states: array<columns>;           // [B H, K, Dk, Dv] by place
@group(0) @binding(7) var<storage, read_write> scalars: array<u32>;        // [B H, SCALARS]
@group(0) @binding(8) var<storage, read_write> trace: array<vec2<u32>>;    // [B H, 1] (score, event)
@group(0) @binding(9) var<storage, read_write> changes: array<u32>;        // [B H, CHANGE]

fn store_change(sequence: u32, change: Change) {
    let at = change_at(sequence);
    changes[at] = change.opened;
    changes[at + 1u] = change.merged;
    changes[at + 2u] = change.absorbed;
    for (var x = 0u; x < change.absorbed; x++) {
        changes[at + 3u + x] = freed[x];
    }
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let sequence = group_index(group);
    if (sequence >= params.sequences) {
        return;
    }
    let t = params.first_token;
    if (t >= length_of(sequence)) {
        return;
    }
    load_order(sequence, lane, 256u);
    load_key(sequence, t, lane);
    if (lane < CAPACITY) {
        stale[lane] = control[control_at(sequence, t)];
    }
    let entered = workgroupUniformLoad(&count);
    price(lane, 256u);
    var i = 0.0;
    if (MEASURE && entered > 0u) {
        i = measure(thread_of(WHOLE, sequence, lane, 0u), t, entered - 1u);
    }
    workgroupBarrier();
    if (lane == 0u) {
        mark_used();
        store_change(sequence, settle(sequence, t, entered == 0u || decide(sequence, t, i), i));
    }
    workgroupBarrier();
    store_order(sequence, lane, 256u);
}
