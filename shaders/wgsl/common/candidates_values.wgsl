// Candidates straight from a row of numbers: their places are their ids.
@group(0) @binding(1) var<storage, read> values: array<u32>;    // [rows, count] bits of f32

const SLICE: u32 = 1024u;    // numbers of a group

// Candidate i of a slice.
fn candidate(row: u32, slice: u32, i: u32) -> vec2<u32> {
    let id = slice * SLICE + i;
    if (id >= layer.count) {
        return NOTHING;
    }
    return vec2<u32>(key_of(values[row * layer.count + id]), id);
}

// How many numbers candidate i tells of that are none.
fn faults(row: u32, slice: u32, i: u32) -> u32 {
    let id = slice * SLICE + i;
    if (id >= layer.count) {
        return 0u;
    }
    return u32(not_a_number(values[row * layer.count + id]));
}
