// The gradients by the states, from the segment's last chunk to its first: what reaches a state that a chunk was entered
// with is what reaches the final state that absorbed it, decayed, and what the chunk's tokens read of it,
// dS_i = e^{A_C} dS'_{slot(i)} + sum_t lambda_{t, rank_t(i)} e^{A_t} q_t do_t'.
//
// Merging is a sum, so its gradient is a copy. States are counted in time order here; places do not matter.
@group(0) @binding(8) var<storage, read> slots: array<vec4<u32>>;               // [B H, chunks, C]
@group(0) @binding(9) var<storage, read_write> d_states: array<columns>;        // [B H, K, Dk, Dv] behind the segment, then before it
@group(0) @binding(10) var<storage, read_write> state_gradients: array<columns>;// [B H, chunks, K, Dk, Dv] at each chunk's end

fn state_at(thread: Thread, chunk: u32, i: u32) -> u32 {
    return (cell_of(thread.sequence, chunk) * CAPACITY + i) * KEY_DIM * ROW + thread.element;
}

fn outer_at(thread: Thread, i: u32) -> u32 {
    return (thread.sequence * CAPACITY + i) * KEY_DIM * ROW + thread.element;
}

// What reaches entered state i, where the chunk before can take it from.
fn put(thread: Thread, chunk: u32, i: u32, x: columns) {
    if (!thread.live) {
        return;
    }
    if (chunk > 0u) {
        state_gradients[state_at(thread, chunk - 1u, i)] = x;
    } else {
        d_states[outer_at(thread, i)] = x;
    }
}

// One chunk's entered states, from `first` on.
fn walk(thread: Thread, chunk: u32, valid: u32, entered: u32, first: u32, lane: u32) {
    let cell = cell_of(thread.sequence, chunk) * CHUNK;
    let starts = slots[cell + valid - 1u];
    let total = exp(decay[cell + CHUNK - 1u]);
    var sum = Sums();
    for (var i = 0u; i < FOURS * 4u; i++) {
        if (thread.live && first + i < entered) {
            sum[i] = total * state_gradients[state_at(thread, chunk, final_state(starts, first + i))];
        }
    }
    add_outer(&sum, thread, chunk, valid, first, lane);
    for (var i = 0u; i < FOURS * 4u; i++) {
        if (first + i < entered) {
            put(thread, chunk, first + i, sum[i]);
        }
    }
}

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let at = group_index(group);
    let tiles = TILES_DOWN * TILES_ACROSS;
    let sequence = at / tiles;
    if (sequence >= params.sequences) {
        return;
    }
    let thread = thread_of(sequence, at % tiles, lane);
    if (thread.live) {
        for (var i = 0u; i < CAPACITY; i++) {
            state_gradients[state_at(thread, params.chunks - 1u, i)] = d_states[outer_at(thread, i)];
        }
    }
    for (var back = 1u; back <= params.chunks; back++) {
        let chunk = params.chunks - back;
        let entry = entry_at(sequence, chunk);
        let entered = entries[entry].x;
        let valid = entries[entry].y;
        if (valid == 0u) {
            for (var i = 0u; thread.live && i < entered; i++) {
                put(thread, chunk, i, state_gradients[state_at(thread, chunk, i)]);
            }
            continue;
        }
        for (var first = 0u; first < entered; first += 4u * FOURS) {
            walk(thread, chunk, valid, entered, first, lane);
        }
    }
    let before = entries[entry_at(sequence, 0u)].x;
    for (var i = before; thread.live && i < CAPACITY; i++) {
        d_states[outer_at(thread, i)] = columns();
    }
}
