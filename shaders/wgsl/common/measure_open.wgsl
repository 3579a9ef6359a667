// The open state's scores from its matrix, token by token as the recurrence takes them: for a state whose |S|^2 cancelled
// where it was carried as a scalar (docs/algorithm.md, Score). Twin of dla-core's chunk/score.rs, measured().
//
// A thread owns one column of the state and every ROWS-th row: columns rounded up to a power of two.
const COLUMNS: u32 = select(select(select(256u, 128u, VALUE_DIM <= 128u), 64u, VALUE_DIM <= 64u), 32u, VALUE_DIM <= 32u);
const ROWS: u32 = 256u / COLUMNS;
const WORKSPACE: u32 = STATE + 1u;    // where the state being measured lies in a sequence's record of open

var<workgroup> measured_to_end: bool;    // the workspace holds the state open at the chunk's end

// The sum of both components over all threads, for thread 0.
fn sum_parts(lane: u32, x: vec2<f32>) -> vec2<f32> {
    workgroupBarrier();
    put_part(lane, x);
    workgroupBarrier();
    var sum = vec2<f32>();
    if (lane < 16u) {
        for (var i = 0u; i < unrolled(16u); i++) {
            sum += part(lane + 16u * i);
        }
    }
    workgroupBarrier();
    if (lane < 16u) {
        put_part(lane, sum);
    }
    workgroupBarrier();
    sum = vec2<f32>();
    if (lane == 0u) {
        for (var i = 0u; i < unrolled(16u); i++) {
            sum += part(i);
        }
    }
    return sum;
}

fn stage_key(sequence: u32, t: u32, lane: u32) {
    workgroupBarrier();
    if (lane < KEY_DIM) {
        put_key(lane, f32(k[key_at(sequence, t) + lane]));
    }
    workgroupBarrier();
}

// k' S of this thread's column, before the transition.
fn read_workspace(base: u32, lane: u32) -> f32 {
    var sum = 0.0;
    if (lane % COLUMNS < VALUE_DIM) {
        for (var i = lane / COLUMNS; i < KEY_DIM; i += ROWS) {
            sum += staged_key(i) * open[base + i * VALUE_DIM];
        }
    }
    put_part(lane, vec2<f32>(sum, 0.0));
    workgroupBarrier();
    sum = 0.0;
    for (var r = 0u; r < unrolled(ROWS); r++) {
        sum += part(r * COLUMNS + lane % COLUMNS).x;
    }
    return sum;
}

// Walks the state that token `start` opened (CHUNK: the one the chunk began with) to the next boundary, its token or
// `valid` in `stop`; the scores are left in `entered`.
fn measure_open(sequence: u32, first: u32, start: u32, valid: u32, lane: u32) {
    let column = lane % COLUMNS;
    let own = sequence * OPEN + column;
    let base = own + WORKSPACE;
    if (start < CHUNK) {
        stage_key(sequence, first + start, lane);
    }
    if (column < VALUE_DIM) {
        for (var i = lane / COLUMNS; i < KEY_DIM; i += ROWS) {
            if (start < CHUNK) {
                open[base + i * VALUE_DIM] = write_strength(start) * staged_key(i) * f32(v[value_at(sequence, first + start) + column]);
            } else {
                open[base + i * VALUE_DIM] = open[own + i * VALUE_DIM];
            }
        }
    }
    if (lane == 0u) {
        stop = valid;
        measured_to_end = true;
    }
    for (var t = select(start + 1u, 0u, start == CHUNK); t < valid; t++) {
        stage_key(sequence, first + t, lane);
        var erased_value = 0.0;
        if (DELTA) {
            erased_value = read_workspace(base, lane);
        }
        let strength = write_strength(t);
        let kept = exp(log_decay_of(t));
        var value = 0.0;
        var sums = vec2<f32>();    // k' S of the column, |S|^2
        if (column < VALUE_DIM) {
            value = f32(v[value_at(sequence, first + t) + column]);
            for (var i = lane / COLUMNS; i < KEY_DIM; i += ROWS) {
                // Erased and written by the same product: where a token repeats their rounding cancels, instead of
                // adding up over the tokens.
                let key = strength * staged_key(i);
                let moved = kept * (open[base + i * VALUE_DIM] - select(0.0, key * erased_value, DELTA));
                open[base + i * VALUE_DIM] = moved;
                sums += vec2<f32>(staged_key(i) * moved, moved * moved);
            }
        }
        let products = sum_parts(lane, vec2<f32>(sums.x * value, sums.y));
        if (lane == 0u) {
            let score_t = score(s2[t], products.y, strength * products.x);
            entered[t] = score_t;
            measured[t / 32u] |= 1u << (t % 32u);
            if (CAPACITY > 1u && decide(sequence, first + t, score_t)) {
                stop = t;
                measured_to_end = false;
            }
        }
        if (workgroupUniformLoad(&stop) < valid) {
            break;
        }
        if (column < VALUE_DIM) {
            for (var i = lane / COLUMNS; i < KEY_DIM; i += ROWS) {
                open[base + i * VALUE_DIM] += strength * staged_key(i) * value;
            }
        }
    }
}

// From the cancelled state, if there is one, and on along the chain to the chunk's end.
fn resolve(sequence: u32, first: u32, valid: u32, lane: u32) {
    loop {
        let start = workgroupUniformLoad(&cancelled_start);
        if (start <= CHUNK) {
            measure_open(sequence, first, start, valid, lane);
        }
        if (lane == 0u) {
            follow(valid);
        }
        if (workgroupUniformLoad(&cancelled_start) > CHUNK) {
            break;
        }
    }
}

// The open state at the chunk's end, where it was measured: the workspace as it is.
fn take_workspace(sequence: u32, lane: u32) {
    let column = lane % COLUMNS;
    let own = sequence * OPEN + column;
    if (column < VALUE_DIM) {
        for (var i = lane / COLUMNS; i < KEY_DIM; i += ROWS) {
            open[own + i * VALUE_DIM] = open[own + WORKSPACE + i * VALUE_DIM];
        }
    }
    workgroupBarrier();
}
