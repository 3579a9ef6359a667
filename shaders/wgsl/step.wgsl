// The recurrence token by token (docs/algorithm.md, Transition to Readout), one group a sequence: decoding, and the
// path for what the chunk passes cannot decide. A token reads every live state once.
//
// With plain and decay a closed state only decays: its matrix is left alone, and `stale` keeps its log decay until
// the dispatch's last token. The transition is linear, so states that merge are added first.
@group(0) @binding(3) var<storage, read> q: array<io>;                     // [B, T, G, Dk]
@group(0) @binding(4) var<storage, read> k: array<io>;                     // [B, T, G, Dk]
@group(0) @binding(5) var<storage, read> v: array<columns_io>;             // [B, T, H, Dv]
@group(0) @binding(6) var<storage, read> control: array<f32>;              // [B, T, H, 2 + K]
@group(0) @binding(7) var<storage, read_write> states: array<columns>;     // [B H, K, Dk, Dv] by place
@group(0) @binding(8) var<storage, read_write> scalars: array<u32>;        // [B H, SCALARS]
@group(0) @binding(9) var<storage, read_write> trace: array<vec2<u32>>;    // [B H, T] (score, event)
@group(0) @binding(10) var<storage, read_write> o: array<columns_io>;      // [B, T, H, Dv]

// A thread owns one of ACROSS columns (of WIDTH) and every DOWN-th row, BLOCK rows at a time.
const ROW: u32 = VALUE_DIM / WIDTH;
const ACROSS: u32 = 1u << (32u - countLeadingZeros(ROW - 1u));
const DOWN: u32 = 256u / ACROSS;
const ROWS: u32 = (KEY_DIM + DOWN - 1u) / DOWN;
const BLOCK: u32 = select(ROWS, 8u, ROWS > 8u);
const STRIDE: u32 = DOWN * BLOCK;
const PADDED: u32 = (KEY_DIM + STRIDE - 1u) / STRIDE * STRIDE;
alias Rows = array<columns, BLOCK>;

var<workgroup> queries: array<f32, PADDED>;
var<workgroup> keys: array<f32, PADDED>;
var<workgroup> lambda: array<f32, CAPACITY>;        // by rank
var<workgroup> stale: array<f32, CAPACITY>;         // by place: log decay that the matrix still has to take
var<workgroup> partial: array<columns, 256>;
var<workgroup> partials: array<vec4<f32>, 256>;
var<workgroup> opens: bool;
var<workgroup> change: Change;

struct Thread {
    sequence: u32,
    lane: u32,
    column: u32,
    row: u32,         // the first of its rows
    live: bool,       // its column exists
}

struct Token {
    value: columns,
    strength: f32,    // beta; 1 without the delta rule
}

const UNCHANGED: Change = Change(false, 0u, 0u, 0u);

// The sum over all threads.
fn sum_all(lane: u32, x: vec4<f32>) -> vec4<f32> {
    workgroupBarrier();
    partials[lane] = x;
    workgroupBarrier();
    var sum = vec4<f32>();
    if (lane < 16u) {
        for (var i = 0u; i < 16u; i++) {
            sum += partials[lane + 16u * i];
        }
    }
    workgroupBarrier();
    if (lane < 16u) {
        partials[lane] = sum;
    }
    workgroupBarrier();
    sum = vec4<f32>();
    for (var i = 0u; i < 16u; i++) {
        sum += partials[i];
    }
    return sum;
}

// The sum over the threads of the same column.
fn sum_rows(own: Thread, x: columns) -> columns {
    workgroupBarrier();
    partial[own.lane] = x;
    workgroupBarrier();
    var sum = columns();
    for (var i = 0u; i < DOWN; i++) {
        sum += partial[own.column + ACROSS * i];
    }
    return sum;
}

fn element(own: Thread, p: u32, row: u32) -> u32 {
    return ((own.sequence * CAPACITY + p) * KEY_DIM + row) * ROW + own.column;
}

fn add_place(sum: ptr<function, Rows>, own: Thread, p: u32, row: u32) {
    let scale = exp(stale[p]);
    for (var r = 0u; r < BLOCK; r++) {
        let d = row + r * DOWN;
        if (own.live && d < KEY_DIM) {
            (*sum)[r] += scale * states[element(own, p, d)];
        }
    }
}

// Rows of state i after its decay, with what it absorbed.
fn gather(own: Thread, i: u32, row: u32, made: Change) -> Rows {
    var sum: Rows;
    add_place(&sum, own, place[i], row);
    if (i + 1u == made.merged) {
        for (var x = 0u; x < made.absorbed; x++) {
            add_place(&sum, own, freed[x], row);
        }
    }
    return sum;
}

// k' S of state i.
fn recall(own: Thread, i: u32, made: Change) -> columns {
    var sum = columns();
    for (var row = own.row; row < PADDED; row += STRIDE) {
        let x = gather(own, i, row, made);
        for (var r = 0u; r < BLOCK; r++) {
            sum += keys[row + r * DOWN] * x[r];
        }
    }
    return sum_rows(own, sum);
}

// The score against the open state.
fn measure(own: Thread, token: Token, open: u32) -> f32 {
    var erased = columns();
    if (DELTA) {
        erased = token.strength * recall(own, open, UNCHANGED);
    }
    var c = columns();
    var n2 = columns();
    var k2 = 0.0;
    for (var row = own.row; row < PADDED; row += STRIDE) {
        let rows = gather(own, open, row, UNCHANGED);
        for (var r = 0u; r < BLOCK; r++) {
            let key = keys[row + r * DOWN];
            let x = rows[r] - key * erased;
            c += key * x;
            n2 += x * x;
            k2 += key * key;
        }
    }
    // Threads of one column share |k|^2, threads of one row |v|^2.
    let v2 = select(0.0, total(token.value * token.value), own.row == 0u);
    let sums = sum_all(own.lane, vec4<f32>(total(c * token.value), total(n2), select(0.0, k2, own.column == 0u), v2));
    let strength = token.strength;
    return score(strength * strength * sums.z * sums.w, sums.y, strength * sums.x);
}

// What merging each pair costs: n_i n_j / (n_i + n_j) |S_i / n_i - S_j / n_j|^2, four pairs at a time.
fn weigh(own: Thread, token: Token, live: u32) {
    for (var first = 0u; first + 1u < live; first += 4u) {
        var squares = vec4<f32>();
        for (var m = 0u; m < 4u && first + m + 1u < live; m++) {
            squares[m] = distance_square(own, token, first + m);
        }
        let sums = sum_all(own.lane, squares);
        if (own.lane < 4u && first + own.lane + 1u < live) {
            let i = first + own.lane;
            let a = f32(n[i]);
            let b = f32(n[i + 1u]);
            ward[i] = a * b / (a + b) * sums[own.lane];
        }
    }
    workgroupBarrier();
}

// The thread's share of |S_i / n_i - S_j / n_j|^2, j = i + 1.
fn distance_square(own: Thread, token: Token, i: u32) -> f32 {
    let a = 1.0 / f32(n[i]);
    let b = 1.0 / f32(n[i + 1u]);
    var erased = columns();
    if (DELTA) {
        let older = recall(own, i, UNCHANGED);
        erased = token.strength * (a * older - b * recall(own, i + 1u, UNCHANGED));
    }
    var sum = columns();
    for (var row = own.row; row < PADDED; row += STRIDE) {
        let older = gather(own, i, row, UNCHANGED);
        let newer = gather(own, i + 1u, row, UNCHANGED);
        for (var r = 0u; r < BLOCK; r++) {
            let x = a * older[r] - b * newer[r] - keys[row + r * DOWN] * erased;
            sum += x * x;
        }
    }
    return total(sum);
}

fn is_written(i: u32, live: u32, made: Change, last: bool) -> bool {
    return DELTA || last || i + 1u == live || i + 1u == made.merged;
}

// Every state's transition, merge and write, and what the query reads from them all.
fn move_states(own: Thread, token: Token, live: u32, made: Change, last: bool) -> columns {
    var read = columns();
    for (var i = 0u; i < live; i++) {
        let newest = i + 1u == live;
        let fresh = newest && made.opened != 0u;
        var written = columns();
        if (newest) {
            written = token.strength * token.value;
        }
        if (DELTA && !fresh) {
            written -= token.strength * recall(own, i, made);
        }
        let weight = lambda[live - 1u - i];
        for (var row = own.row; row < PADDED; row += STRIDE) {
            var x: Rows;
            if (!fresh) {
                x = gather(own, i, row, made);
            }
            for (var r = 0u; r < BLOCK; r++) {
                let d = row + r * DOWN;
                if (DELTA || newest) {
                    x[r] += keys[d] * written;
                }
                read += weight * queries[d] * x[r];
            }
            if (own.live && is_written(i, live, made, last)) {
                for (var r = 0u; r < BLOCK; r++) {
                    let d = row + r * DOWN;
                    if (d < KEY_DIM) {
                        states[element(own, place[i], d)] = x[r];
                    }
                }
            }
        }
    }
    return sum_rows(own, read);
}

// Brings the token to workgroup memory and ages every place by its decay.
fn enter(own: Thread, t: u32) {
    workgroupBarrier();
    for (var d = own.lane; d < PADDED; d += 256u) {
        queries[d] = 0.0;
        keys[d] = 0.0;
        if (d < KEY_DIM) {
            queries[d] = f32(q[key_at(own.sequence, t) + d]);
            keys[d] = f32(k[key_at(own.sequence, t) + d]);
        }
    }
    if (own.lane < CAPACITY) {
        let record = control_at(own.sequence, t);
        lambda[own.lane] = control[record + 2u + own.lane];
        stale[own.lane] += control[record];
    }
    workgroupBarrier();
}

fn token_of(own: Thread, t: u32) -> Token {
    var token = Token(columns(), 1.0);
    if (own.live) {
        token.value = widen(v[token_head(own.sequence, t) * ROW + own.column]);
    }
    if (DELTA) {
        token.strength = control[control_at(own.sequence, t) + 1u];
    }
    return token;
}

// Steps 1 to 4 for one token; returns what its query reads.
fn step(own: Thread, t: u32, last: bool) -> columns {
    enter(own, t);
    let token = token_of(own, t);
    let at = own.sequence * params.tokens + t;
    let entered = workgroupUniformLoad(&count);

    // 1. Score and boundary.
    var i = 0.0;
    if (MEASURE && entered > 0u) {
        i = measure(own, token, entered - 1u);
    }
    if (own.lane == 0u) {
        opens = entered == 0u || decide(own.sequence, t, i);
    }

    // 2. Capacity.
    if (COST == 1u && !REPLAY && entered == CAPACITY && workgroupUniformLoad(&opens)) {
        weigh(own, token, entered);
    }
    if (own.lane == 0u) {
        change = advance(opens, trace[at].y, i);
        trace[at] = vec2<u32>(bitcast<u32>(i), event(opens, change.merged, count));
    }

    // 3. States and readout.
    let made = workgroupUniformLoad(&change);
    let live = entered + made.opened - made.absorbed;
    let read = move_states(own, token, live, made, last);
    if (own.lane < live && is_written(own.lane, live, made, last)) {
        stale[place[own.lane]] = 0.0;
    }
    return read;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let sequence = group_index(group);
    if (sequence >= params.sequences) {
        return;
    }
    let column = lane % ACROSS;
    let own = Thread(sequence, lane, column, lane / ACROSS, column < ROW);
    load_order(sequence, lane, 256u);
    if (lane < CAPACITY) {
        stale[lane] = 0.0;
    }
    workgroupBarrier();
    if (lane == 0u) {
        mark_used();
    }
    let length = min(length_of(sequence), params.tokens);
    let end = params.first_token + params.steps;
    for (var t = params.first_token; t < end; t++) {
        var read = columns();
        if (t < length) {
            read = step(own, t, t + 1u == min(end, length));
        }
        if (own.live && own.row == 0u) {
            o[token_head(sequence, t) * ROW + column] = columns_io(read);
        }
    }
    workgroupBarrier();
    store_order(sequence, lane, 256u);
}
