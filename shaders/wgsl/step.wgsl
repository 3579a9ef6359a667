// The recurrence token by token (docs/algorithm.md, Transition to Readout), one group a sequence: decoding, and the
// path for what the chunk passes cannot decide. A token reads every live state once.
@group(0) @binding(3) var<storage, read> q: array<io>;                     // [B, T, G, Dk]
@group(0) @binding(4) var<storage, read> k: array<io>;                     // [B, T, G, Dk]
@group(0) @binding(5) var<storage, read> v: array<columns_io>;             // [B, T, H, Dv]
@group(0) @binding(6) var<storage, read> control: array<f32>;              // [B, T, H, 2 + K]
@group(0) @binding(7) var<storage, read_write> states: array<columns>;     // [B H, K, Dk, Dv] by place
@group(0) @binding(8) var<storage, read_write> scalars: array<u32>;        // [B H, SCALARS]
@group(0) @binding(9) var<storage, read_write> trace: array<vec2<u32>>;    // [B H, T] (score, event)
@group(0) @binding(10) var<storage, read_write> o: array<columns_io>;      // [B, T, H, Dv]

var<workgroup> opens: bool;
var<workgroup> change: Change;

// What merging each pair costs: n_i n_j / (n_i + n_j) |S_i / n_i - S_j / n_j|^2, four pairs at a time.
fn weigh(own: Thread, t: u32, live: u32) {
    let strength = token_of(own, t).strength;
    for (var first = 0u; first + 1u < live; first += 4u) {
        var squares = vec4<f32>();
        for (var m = 0u; m < 4u && first + m + 1u < live; m++) {
            squares[m] = distance_square(own, strength, first + m);
        }
        let sums = sum_all(own.lane, squares);
        if (own.lane < 4u && first + own.lane + 1u < live) {
            let i = first + own.lane;
            let a = f32(n[i]);
            let b = f32(n[i + 1u]);
            costs[i] = cost_rank(a * b / (a + b) * sums[own.lane]);
        }
    }
    workgroupBarrier();
}

// The thread's share of |S_i / n_i - S_j / n_j|^2, j = i + 1.
fn distance_square(own: Thread, strength: f32, i: u32) -> f32 {
    let a = 1.0 / f32(n[i]);
    let b = 1.0 / f32(n[i + 1u]);
    var older = gather(WHOLE, own, i, own.row, UNCHANGED);
    var newer = gather(WHOLE, own, i + 1u, own.row, UNCHANGED);
    var erased = columns();
    if (DELTA) {
        let recalled = recall(WHOLE, own, i, UNCHANGED, older);
        erased = strength * (a * recalled - b * recall(WHOLE, own, i + 1u, UNCHANGED, newer));
    }
    var sum = columns();
    for (var row = own.row; row < KEY_DIM; row += WHOLE.down * BLOCK) {
        if (row > own.row) {
            older = gather(WHOLE, own, i, row, UNCHANGED);
            newer = gather(WHOLE, own, i + 1u, row, UNCHANGED);
        }
        for (var r = 0u; r < BLOCK; r++) {
            let d = row + r * WHOLE.down;
            if (is_row(WHOLE, d)) {
                let x = a * older[r] - b * newer[r] - keys[d] * erased;
                sum += x * x;
            }
        }
    }
    return total(sum);
}

// Brings the token to workgroup memory and ages every place by its decay.
fn enter(sequence: u32, t: u32, lane: u32) {
    // Other threads moved the states that this one reads now.
    storageBarrier();
    workgroupBarrier();
    load_key(sequence, t, lane);
    load_reads(sequence, t, lane);
    if (lane < CAPACITY) {
        stale[lane] += control[control_at(sequence, t)];
    }
    workgroupBarrier();
}

// Steps 1 to 4 for one token; returns what its query reads.
fn step(own: Thread, t: u32, last: bool) -> columns {
    let lane = own.lane;
    enter(own.sequence, t, lane);
    let entered = workgroupUniformLoad(&count);

    // 1. Score and boundary.
    let whole = thread_of(WHOLE, own.sequence, lane, 0u);
    var i = 0.0;
    if (MEASURE && entered > 0u) {
        i = measure(whole, t, entered - 1u);
    }
    if (lane == 0u) {
        opens = entered == 0u || decide(own.sequence, t, i);
    }

    // 2. Capacity.
    if (workgroupUniformLoad(&opens) && entered == CAPACITY) {
        if (COST == 1u && !REPLAY) {
            weigh(whole, t, entered);
        } else {
            price(lane, 256u);
            workgroupBarrier();
        }
    }
    if (lane == 0u) {
        change = settle(own.sequence, t, opens, i);
    }

    // 3. States and readout.
    let made = workgroupUniformLoad(&change);
    let live = entered + made.opened - made.absorbed;
    let read = move_states(own, t, live, made, last);
    if (lane < live && is_written(lane, live, made, last)) {
        stale[place[lane]] = 0.0;
    }
    return read;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let sequence = group_index(group);
    if (sequence >= params.sequences) {
        return;
    }
    load_order(sequence, lane, 256u);
    if (lane < CAPACITY) {
        stale[lane] = 0.0;
    }
    workgroupBarrier();
    if (lane == 0u) {
        mark_used();
    }
    let own = thread_of(SLICES, sequence, lane, 0u);
    let length = min(length_of(sequence), params.tokens);
    let end = params.first_token + params.steps;
    for (var t = params.first_token; t < end; t++) {
        var read = columns();
        if (t < length) {
            read = step(own, t, t + 1u == min(end, length));
        }
        put(own, t, read);
    }
    workgroupBarrier();
    store_order(sequence, lane, 256u);
}
