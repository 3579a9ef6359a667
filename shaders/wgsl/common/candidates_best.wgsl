// Candidates from what other groups found, `count` records a row.
@group(0) @binding(1) var<storage, read> found: array<vec2<u32>>;    // [rows, count, 1 + BEST] as best

const SLICE: u32 = 1024u / BEST;    // records of a group

// Candidate i of a slice.
fn candidate(row: u32, slice: u32, i: u32) -> vec2<u32> {
    let record = slice * SLICE + i / BEST;
    if (i >= SLICE * BEST || record >= layer.count) {
        return NOTHING;
    }
    let entry = found[(row * layer.count + record) * (BEST + 1u) + 1u + i % BEST];
    return vec2<u32>(key_of(entry.x), entry.y);
}

// How many numbers candidate i tells of that are none: a record's first candidate, for all of it.
fn faults(row: u32, slice: u32, i: u32) -> u32 {
    let record = slice * SLICE + i / BEST;
    if (i >= SLICE * BEST || record >= layer.count || i % BEST > 0u) {
        return 0u;
    }
    return found[(row * layer.count + record) * (BEST + 1u)].x;
}
