// Transition, merge, write and readout of one token (docs/algorithm.md, Transition to Readout) for a slice of columns,
// ABREAST states at a time. The transition is linear, so states that merge are added first.
var<workgroup> queries: array<f32, KEY_DIM>;
var<workgroup> lambda: array<f32, CAPACITY>;    // by rank

fn load_reads(sequence: u32, t: u32, lane: u32) {
    if (lane < KEY_DIM) {
        queries[lane] = f32(q[key_at(sequence, t) + lane]);
    }
    if (lane < CAPACITY) {
        lambda[lane] = control[control_at(sequence, t) + 2u + lane];
    }
}

// With plain and decay a closed state only decays: until the last token, `stale` remembers by how much.
fn is_written(i: u32, live: u32, made: Change, last: bool) -> bool {
    return DELTA || last || i + 1u == live || i + 1u == made.merged;
}

// Moves all states; returns what the query reads from them.
fn move_states(own: Thread, t: u32, live: u32, made: Change, last: bool) -> columns {
    let token = token_of(own, t);
    var read = columns();
    for (var first = 0u; first < live; first += ABREAST) {
        let i = first + own.lane / (SLICE * DOWN);
        let newest = i + 1u == live;
        let fresh = newest && made.opened != 0u;
        var source = own;
        source.live = own.live && i < live && !fresh;
        var x = gather(SLICES, source, i, own.row, made);
        var written = columns();
        if (newest) {
            written = token.strength * token.value;
        }
        if (DELTA) {
            written -= token.strength * recall(SLICES, source, i, made, x);
        }
        // The newest state may lie where an absorbed one is still read.
        if (ABREAST > 1u && first + ABREAST >= live) {
            storageBarrier();
        }
        if (own.live && i < live) {
            let weight = lambda[live - 1u - i];
            for (var row = own.row; row < KEY_DIM; row += DOWN * BLOCK) {
                if (row > own.row) {
                    x = gather(SLICES, source, i, row, made);
                }
                for (var r = 0u; r < BLOCK; r++) {
                    let d = row + r * DOWN;
                    if (is_row(SLICES, d)) {
                        if (DELTA || newest) {
                            x[r] += keys[d] * written;
                        }
                        read += weight * queries[d] * x[r];
                        if (is_written(i, live, made, last)) {
                            states[element(own, place[i], d)] = x[r];
                        }
                    }
                }
            }
        }
    }
    return sum_rows(own.lane, SLICE, 256u, read);
}

fn put(own: Thread, t: u32, read: columns) {
    if (own.live && own.lane < SLICE) {
        o[token_head(own.sequence, t) * ROW + own.column] = columns_io(read);
    }
}
