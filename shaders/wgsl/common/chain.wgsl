// The chain of states through a chunk: the one entered with, up to its first boundary, then from each start to the next
// as the score pass answered.

var<workgroup> next: array<u32, CHUNK>;
var<workgroup> entered: array<f32, CHUNK>;               // scores against the entered state
var<workgroup> has_open: u32;
var<workgroup> stop: u32;                                // first boundary, or the chunk's valid length
var<workgroup> starts: array<u32, 2>;                    // tokens that open a state, 64 bits
var<workgroup> carried_from: u32;                        // first token of the state open at the end, CHUNK: it is the entered one
var<workgroup> cancelled_start: u32;                     // start of a state that must be measured, CHUNK: the entered one; or NO_START
var<workgroup> measured: array<u32, 2>;                  // tokens whose score lies in entered, 64 bits

const NO_START: u32 = CHUNK + 1u;

// One thread, at a chunk's begin.
fn begin_chain(valid: u32) {
    starts = array<u32, 2>();
    measured = array<u32, 2>();
    cancelled_start = NO_START;
    stop = valid;
}

// One thread: follows next from the first boundary on, to the end or to a state whose |S|^2 cancelled.
fn follow(valid: u32) {
    cancelled_start = NO_START;
    var p = stop;
    while (p < valid) {
        starts[p / 32u] |= 1u << (p % 32u);
        if (next[p] > CHUNK) {
            cancelled_start = p;
            break;
        }
        p = next[p];
    }
    carried_from = start_before(valid);
}

// The latest start before t, or CHUNK if none is in this chunk.
fn start_before(t: u32) -> u32 {
    var low = starts[0];
    var high = starts[1];
    if (t < 32u) {
        low &= (1u << t) - 1u;
        high = 0u;
    } else if (t < 64u) {
        high &= (1u << (t - 32u)) - 1u;
    }
    if (high != 0u) {
        return 32u + firstLeadingBit(high);
    }
    return select(CHUNK, firstLeadingBit(low), low != 0u);
}

fn record(sequence: u32, first: u32, cell: u32, t: u32) {
    let p = start_before(t);
    var i = 0.0;
    var boundary = true;
    if (p < CHUNK && (measured[t / 32u] & (1u << (t % 32u))) == 0u) {
        i = scores[cell * PAIRS + pair(t, p)];
        boundary = decide(sequence, first + t, i);
    } else if (has_open != 0u || t > 0u) {
        i = entered[t];
        boundary = decide(sequence, first + t, i);
    }
    let at = sequence * params.tokens + first + t;
    trace[at] = vec2<u32>(bitcast<u32>(i), with_boundary(trace[at].y, boundary));
}
