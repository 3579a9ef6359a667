// The capacity rule over scalars (docs/algorithm.md, Capacity): one thread a sequence walks the tokens, merges the
// cheapest adjacent pair when a boundary finds the cache full, and writes down where everything lies.
@group(0) @binding(3) var<storage, read> decay: array<f32>;                 // [B H, chunks, C]
@group(0) @binding(4) var<storage, read_write> trace: array<vec2<u32>>;     // [B H, T] (score, event)
@group(0) @binding(5) var<storage, read_write> scalars: array<u32>;         // [B H, SCALARS]
@group(0) @binding(6) var<storage, read_write> slots: array<vec4<u32>>;     // [B H, chunks, C] slot map
@group(0) @binding(7) var<storage, read_write> entries: array<vec2<u32>>;   // [B H, chunks + 1, 1 + K]

var<private> begin: array<u32, CAPACITY>;        // where the state begins in the slot map's 128 bits
var<private> version: array<u32, CAPACITY>;      // by place: the chunk at whose entry the matrix was last written
var<private> stale: array<f32, CAPACITY>;        // by place: log decay since then
var<private> map: vec4<u32>;

// The record of the states a chunk is entered with: a header (live states, valid tokens), then for each state in
// time order its place, the chunk that wrote its version, and its log decay since.
fn enter(sequence: u32, chunk: u32, valid: u32) {
    let at = entry_at(sequence, chunk);
    entries[at] = vec2<u32>(count, valid);
    map = vec4<u32>();
    for (var i = 0u; i < count; i++) {
        let p = place[i];
        entries[at + 1u + i] = vec2<u32>(p | (version[p] << 8u), bitcast<u32>(stale[p]));
        begin[i] = i;
        map[i / 32u] |= 1u << (i % 32u);
    }
}

// A place that took tokens or merged in this chunk holds a new version; the others only decayed, but for the delta
// rule, whose transition changes every matrix.
fn leave(sequence: u32, chunk: u32, entered: u32, total: f32) {
    for (var i = 0u; i < count; i++) {
        let p = place[i];
        let end = select(128u, begin[min(i + 1u, CAPACITY - 1u)], i + 1u < count);
        let states = select(0u, min(end, entered) - min(begin[i], entered), begin[i] < entered);
        if (DELTA || end > 64u || states > 1u) {
            version[p] = chunk + 1u;
            stale[p] = 0.0;
        } else {
            stale[p] += total;
        }
    }
}

// Follows a change of the order in the slot map.
fn follow(change: Change, t: u32) {
    for (var i = 0u; i < change.absorbed; i++) {
        let bit = begin[change.merged + i];
        map[bit / 32u] &= ~(1u << (bit % 32u));
    }
    let closed = count - change.opened;
    for (var i = change.merged; change.absorbed > 0u && i < closed; i++) {
        begin[i] = begin[i + change.absorbed];
    }
    if (change.opened != 0u) {
        let bit = 64u + t;
        begin[closed] = bit;
        map[bit / 32u] |= 1u << (bit % 32u);
    }
}

@compute @workgroup_size(1)
fn main(@builtin(workgroup_id) group: vec3<u32>) {
    let sequence = group_index(group);
    if (sequence >= params.sequences) {
        return;
    }
    load_order(sequence, 0u, 1u);
    mark_used();
    for (var chunk = 0u; chunk < params.chunks; chunk++) {
        let valid = chunk_valid(sequence, chunk);
        let first = chunk_token(chunk);
        let cell = cell_of(sequence, chunk);
        enter(sequence, chunk, valid);
        let entered = count;
        for (var t = 0u; t < CHUNK; t++) {
            if (t < valid) {
                let at = sequence * params.tokens + first + t;
                let word = trace[at];
                let boundary = event_boundary(word.y) || count == 0u;
                if (boundary && is_full()) {
                    price(0u, 1u);
                }
                let change = advance(boundary, word.y, bitcast<f32>(word.x));
                follow(change, t);
                trace[at] = vec2<u32>(word.x, event(change.boundary, change.merged, count));
                slots[cell * CHUNK + t] = map;
            } else {
                slots[cell * CHUNK + t] = vec4<u32>();
            }
        }
        leave(sequence, chunk, entered, decay[cell * CHUNK + CHUNK - 1u]);
    }
    enter(sequence, params.chunks, 0u);
    store_order(sequence, 0u, 1u);
}
