// The gradients by the gate (docs/algorithm.md, Training): <dS_previous - dS_open, open_{t-1}>, the states' gradients just
// after token t, the open state before its write. Neither is formed: each source of that open state is known against
// every later read of the chunk and against the gradients of the final states around its own. One group a chunk, one
// thread a token.
@group(0) @binding(3) var<storage, read> control: array<f32>;                   // [B, T, H, 2 + K]
@group(0) @binding(4) var<storage, read> slots: array<vec4<u32>>;               // [B H, chunks, C]
@group(0) @binding(5) var<storage, read> entries: array<vec2<u32>>;             // [B H, chunks + 1, 1 + K]
@group(0) @binding(6) var<storage, read> trace: array<vec2<u32>>;               // [B H, T] (score, event)
@group(0) @binding(7) var<storage, read> mix_gradients: array<f32>;             // [B H, chunks, 3, C, C]
@group(0) @binding(8) var<storage, read> dots: array<f32>;                      // [B H, chunks, DOTS]
@group(0) @binding(9) var<storage, read_write> gate_gradients: array<f32>;      // [B H, T]

// The sources of the open state, as bits of the slot map, and one source of the state before the newest.
struct Moved {
    begin: u32,
    end: u32,
    previous: u32,
}

// The last bit of `starts` below x, or 0.
fn start_below(starts: vec4<u32>, x: u32) -> u32 {
    for (var word = 4u; word > 0u; word--) {
        let base = 32u * (word - 1u);
        if (base < x) {
            let below = min(x - base, 32u);
            let bits = starts[word - 1u] & (0xffffffffu >> (32u - below));
            if (bits != 0u) {
                return base + firstLeadingBit(bits);
            }
        }
    }
    return 0u;
}

fn moved_of(starts: vec4<u32>, t: u32, entered: u32) -> Moved {
    let end = 64u + t;
    let newest = start_below(starts, end + 1u);
    // The source before the newest state's start; there is none between the last entered state and the first token.
    let previous = select(max(newest, 1u) - 1u, max(entered, 1u) - 1u, newest == 64u);
    return Moved(select(newest, start_below(starts, newest), newest == end), end, previous);
}

fn rank_of(starts: vec4<u32>, x: u32) -> u32 {
    return bits_below(starts, 128u) - bits_below(starts, x + 1u);
}

// What token u reads of the moved sources, without its read weight.
fn read_of(cell: u32, moved: Moved, entered: u32, u: u32) -> f32 {
    var sum = 0.0;
    for (var i = moved.begin; i < entered; i++) {
        sum += read_dot(cell, u, i);
    }
    for (var x = max(moved.begin, 64u); x < moved.end; x++) {
        sum += mix_gradients[mix_at(cell, READ_MIX, u, x - 64u)];
    }
    return sum;
}

// Which of a source's three dots: own and j are final states, at most one apart.
fn near(own: u32, j: u32) -> u32 {
    return min(max(j + 1u, own) - own, 2u);
}

// What the moved sources leave in the final states, against the previous state's gradient less the newest one's.
fn kept_of(cell: u32, moved: Moved, entered: u32, starts: vec4<u32>) -> f32 {
    let previous = final_state(starts, moved.previous);
    let newest = final_state(starts, moved.end);
    if (previous == newest) {
        return 0.0;
    }
    var sum = 0.0;
    for (var i = moved.begin; i < entered; i++) {
        let own = final_state(starts, i);
        sum += dots[carry_dot_at(cell, near(own, previous), i)] - dots[carry_dot_at(cell, near(own, newest), i)];
    }
    for (var x = max(moved.begin, 64u); x < moved.end; x++) {
        let own = final_state(starts, x);
        sum += write_dot(cell, near(own, previous), x - 64u) - write_dot(cell, near(own, newest), x - 64u);
    }
    return sum;
}

@compute @workgroup_size(CHUNK)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) t: u32) {
    let at = group_index(group);
    let sequence = at / params.chunks;
    let chunk = at % params.chunks;
    let first = chunk_token(chunk);
    if (sequence >= params.sequences || first + t >= params.tokens) {
        return;
    }
    let row = sequence * params.tokens + first + t;
    let valid = chunk_valid(sequence, chunk);
    let cell = cell_of(sequence, chunk);
    var sum = 0.0;
    if (t < valid && event_count(trace[row].y) >= 2u) {
        let entered = entries[entry_at(sequence, chunk)].x;
        let moved = moved_of(slots[cell * CHUNK + t], t, entered);
        for (var u = t; u < valid; u++) {
            let starts = slots[cell * CHUNK + u];
            let previous = rank_of(starts, moved.previous);
            let newest = rank_of(starts, moved.end);
            if (previous != newest) {
                let record = control_at(sequence, first + u) + 2u;
                sum += (control[record + previous] - control[record + newest]) * read_of(cell, moved, entered, u);
            }
        }
        sum += kept_of(cell, moved, entered, slots[cell * CHUNK + valid - 1u]);
    }
    gate_gradients[row] = sum;
}
