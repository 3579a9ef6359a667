// Score, boundary and capacity of one token (docs/algorithm.md, Score to Capacity).
var<workgroup> partials: array<vec4<f32>, 256>;

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
        partials[lane] = sum;
    }
    workgroupBarrier();
    sum = vec4<f32>();
    for (var i = 0u; i < 16u; i++) {
        sum += partials[i];
    }
    return sum;
}

// The token's score against the open state.
fn measure(own: Thread, t: u32, open: u32) -> f32 {
    let token = token_of(own, t);
    let strength = token.strength;
    var x = gather(WHOLE, own, open, own.row, UNCHANGED);
    var erased = columns();
    if (DELTA) {
        erased = strength * recall(WHOLE, own, open, UNCHANGED, x);
    }
    var c = columns();
    var n2 = columns();
    var k2 = 0.0;
    for (var row = own.row; row < KEY_DIM; row += WHOLE.down * BLOCK) {
        if (row > own.row) {
            x = gather(WHOLE, own, open, row, UNCHANGED);
        }
        for (var r = 0u; r < BLOCK; r++) {
            let d = row + r * WHOLE.down;
            if (is_row(WHOLE, d)) {
                let moved = x[r] - keys[d] * erased;
                c += keys[d] * moved;
                n2 += moved * moved;
                k2 += keys[d] * keys[d];
            }
        }
    }
    // Threads of one column share |k|^2, threads of one row |v|^2.
    let v2 = select(0.0, total(token.value * token.value), own.row == 0u);
    let sums = sum_all(own.lane, vec4<f32>(total(c * token.value), total(n2), select(0.0, k2, own.column == 0u), v2));
    return score(strength * strength * sums.z * sums.w, sums.y, strength * sums.x);
}

// One thread: takes the token into the order and writes down what was decided.
fn settle(sequence: u32, t: u32, boundary: bool, i: f32) -> Change {
    let at = sequence * params.tokens + t;
    let change = advance(boundary, trace[at].y, i);
    trace[at] = vec2<u32>(bitcast<u32>(i), event(boundary, change.merged, count));
    return change;
}
