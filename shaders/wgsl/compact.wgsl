// The capacity rule over scalars (docs/algorithm.md, Capacity): one thread a sequence walks the tokens, merges the
// cheapest adjacent pair when a boundary finds the cache full, and writes down where everything lies.
//
// No matrix moves: `place` is the order array (time order -> place in memory), a merged pair keeps its older place,
// and the newer place is free for the state that opens.
@group(0) @binding(3) var<storage, read> decay: array<f32>;                 // [B H, chunks, C]
@group(0) @binding(4) var<storage, read_write> trace: array<vec2<u32>>;     // [B H, T] (score, event)
@group(0) @binding(5) var<storage, read_write> scalars: array<u32>;         // [B H, SCALARS]
@group(0) @binding(6) var<storage, read_write> slots: array<vec4<u32>>;     // [B H, chunks, C] slot map
@group(0) @binding(7) var<storage, read_write> entries: array<vec2<u32>>;   // [B H, chunks + 1, 1 + K]

var<private> count: u32;
var<private> n: array<u32, CAPACITY>;
var<private> info: array<f32, CAPACITY>;
var<private> place: array<u32, CAPACITY>;
var<private> begin: array<u32, CAPACITY>;        // where the state begins in the slot map's 128 bits
var<private> version: array<u32, CAPACITY>;      // by place: the chunk at whose entry the matrix was last written
var<private> stale: array<f32, CAPACITY>;        // by place: log decay since then
var<private> map: vec4<u32>;
var<private> used: vec2<u32>;                    // places that hold a state, 64 bits

fn load(sequence: u32) {
    let at = scalar_at(sequence);
    count = scalars[at];
    for (var i = 0u; i < count; i++) {
        n[i] = scalars[at + 1u + 3u * i];
        info[i] = bitcast<f32>(scalars[at + 2u + 3u * i]);
        place[i] = scalars[at + 3u + 3u * i];
        version[place[i]] = 0u;
        stale[place[i]] = 0.0;
        used[place[i] / 32u] |= 1u << (place[i] % 32u);
    }
}

fn store(sequence: u32) {
    let at = scalar_at(sequence);
    scalars[at] = count;
    for (var i = 0u; i < count; i++) {
        scalars[at + 1u + 3u * i] = n[i];
        scalars[at + 2u + 3u * i] = bitcast<u32>(info[i]);
        scalars[at + 3u + 3u * i] = place[i];
    }
}

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

// Twin of dla-core's dla/compact.rs.
fn cost(i: u32) -> f32 {
    if (COST == 2u) {
        return f32(i);
    }
    return (info[i] + info[i + 1u]) / f32(n[i] + n[i + 1u]);
}

fn cheapest() -> u32 {
    var best = 0u;
    var least = cost(0u);
    for (var i = 1u; i + 1u < count; i++) {
        let x = cost(i);
        if (x < least) {
            least = x;
            best = i;
        }
    }
    return best;
}

// Joins states j and j + 1; the newer one's place becomes free.
fn merge(j: u32) {
    let free = place[j + 1u];
    used[free / 32u] &= ~(1u << (free % 32u));
    n[j] += n[j + 1u];
    info[j] += info[j + 1u];
    let bit = begin[j + 1u];
    map[bit / 32u] &= ~(1u << (bit % 32u));
    count--;
    for (var i = j + 1u; i < count; i++) {
        n[i] = n[i + 1u];
        info[i] = info[i + 1u];
        place[i] = place[i + 1u];
        begin[i] = begin[i + 1u];
    }
}

fn append(i: f32, t: u32) {
    let free = select(firstTrailingBit(~used.x), 32u + firstTrailingBit(~used.y), used.x == 0xffffffffu);
    used[free / 32u] |= 1u << (free % 32u);
    n[count] = 1u;
    info[count] = i;
    place[count] = free;
    begin[count] = 64u + t;
    let bit = 64u + t;
    map[bit / 32u] |= 1u << (bit % 32u);
    count++;
}

fn join(i: f32) {
    n[count - 1u]++;
    info[count - 1u] += i;
}

// One token; returns its event.
fn step(word: u32, i: f32, t: u32) -> u32 {
    let boundary = event_boundary(word) || count == 0u;
    var merged = 0u;
    if (!boundary) {
        join(i);
    } else if (CAPACITY == 1u && count == 1u) {
        merged = 1u;
        join(i);
    } else {
        if (REPLAY) {
            // A given merge may collapse a whole run, as Fenwick's levels do.
            merged = event_merge(word);
            while (merged > 0u && count + 1u > event_count(word)) {
                merge(merged - 1u);
            }
        } else if (count == CAPACITY) {
            merged = cheapest() + 1u;
            merge(merged - 1u);
        }
        append(i, t);
    }
    return event(boundary, merged, count);
}

@compute @workgroup_size(1)
fn main(@builtin(workgroup_id) group: vec3<u32>) {
    let sequence = group_index(group);
    if (sequence >= params.sequences) {
        return;
    }
    load(sequence);
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
                var i = bitcast<f32>(word.x);
                if (non_finite(i)) {
                    i = 0.0;
                }
                trace[at] = vec2<u32>(word.x, step(word.y, i, t));
                slots[cell * CHUNK + t] = map;
            } else {
                slots[cell * CHUNK + t] = vec4<u32>();
            }
        }
        leave(sequence, chunk, entered, decay[cell * CHUNK + CHUNK - 1u]);
    }
    enter(sequence, params.chunks, 0u);
    store(sequence);
}
