// The capacity rule over scalars, as compact.wgsl, with one subgroup a sequence: lane i holds state i in time order.
// Needs CAPACITY <= SUBGROUP, the smallest subgroup of the device, so that a group is always one subgroup.
@group(0) @binding(3) var<storage, read> decay: array<f32>;                 // [B H, chunks, C]
@group(0) @binding(4) var<storage, read_write> trace: array<vec2<u32>>;     // [B H, T] (score, event)
@group(0) @binding(5) var<storage, read_write> scalars: array<u32>;         // [B H, SCALARS]
@group(0) @binding(6) var<storage, read_write> slots: array<vec4<u32>>;     // [B H, chunks, C] slot map
@group(0) @binding(7) var<storage, read_write> entries: array<vec2<u32>>;   // [B H, chunks + 1, 1 + K]

// The lane's state.
struct State {
    n: u32,
    info: f32,
    place: u32,
    begin: u32,      // where it begins in the slot map's 128 bits
    version: u32,    // the chunk at whose entry its matrix was last written
    stale: f32,      // log decay since then
}

var<workgroup> scores: array<f32, CHUNK>;        // 0 where not finite
var<workgroup> events: array<u32, CHUNK>;        // as given, then as decided
var<workgroup> maps: array<vec4<u32>, CHUNK>;    // the slot map after every boundary

var<private> lane: u32;
var<private> state: State;
// The same in every lane.
var<private> count: u32;
var<private> map: vec4<u32>;
var<private> used: vec2<u32>;        // places that hold a state, 64 bits

fn load(sequence: u32) {
    let at = scalar_at(sequence);
    count = scalars[at];
    var bits = vec2<u32>();
    if (lane < count) {
        let place = scalars[at + 3u + 3u * lane];
        state = State(scalars[at + 1u + 3u * lane], bitcast<f32>(scalars[at + 2u + 3u * lane]), place, lane, 0u, 0.0);
        bits = bit_of(place).xy;
    }
    used = subgroupOr(bits);
}

fn store(sequence: u32) {
    let at = scalar_at(sequence);
    if (lane == 0u) {
        scalars[at] = count;
    }
    if (lane < count) {
        scalars[at + 1u + 3u * lane] = state.n;
        scalars[at + 2u + 3u * lane] = bitcast<u32>(state.info);
        scalars[at + 3u + 3u * lane] = state.place;
    }
}

fn enter(sequence: u32, chunk: u32, valid: u32) {
    let at = entry_at(sequence, chunk);
    if (lane == 0u) {
        entries[at] = vec2<u32>(count, valid);
    }
    if (lane < count) {
        entries[at + 1u + lane] = vec2<u32>(state.place | (state.version << 8u), bitcast<u32>(state.stale));
    }
    state.begin = lane;
    map = vec4<u32>(low_bits(count), low_bits(max(count, 32u) - 32u), 0u, 0u);
}

fn bit_of(x: u32) -> vec4<u32> {
    return select(vec4<u32>(), vec4<u32>(1u << (x % 32u)), vec4<u32>(x / 32u) == vec4<u32>(0u, 1u, 2u, 3u));
}

fn low_bits(bits: u32) -> u32 {
    return select((1u << bits) - 1u, 0xffffffffu, bits >= 32u);
}

// A state that took tokens or merged in this chunk has a new version; the others only decayed.
fn leave(chunk: u32, entered: u32, total: f32) {
    let next = subgroupShuffleDown(state.begin, 1u);
    let end = select(128u, next, lane + 1u < count);
    let states = select(0u, min(end, entered) - min(state.begin, entered), state.begin < entered);
    if (DELTA || end > 64u || states > 1u) {
        state.version = chunk + 1u;
        state.stale = 0.0;
    } else {
        state.stale += total;
    }
}

// Twin of dla-core's dla/compact.rs. Costs are not negative, so their bits are in their order.
fn cheapest(after: State) -> u32 {
    if (COST == 2u) {
        return 0u;
    }
    var cost = 0xffffffffu;
    if (lane + 1u < count) {
        cost = bitcast<u32>((state.info + after.info) / f32(state.n + after.n));
    }
    return firstTrailingBit(subgroupBallot(cost == subgroupMin(cost)).x);
}

fn next_state() -> State {
    return State(
        subgroupShuffleDown(state.n, 1u),
        subgroupShuffleDown(state.info, 1u),
        subgroupShuffleDown(state.place, 1u),
        subgroupShuffleDown(state.begin, 1u),
        subgroupShuffleDown(state.version, 1u),
        subgroupShuffleDown(state.stale, 1u),
    );
}

// Joins states j and j + 1; the newer one's place becomes free.
fn merge(j: u32, after: State) {
    let free = subgroupShuffle(after.place, j);
    let bit = subgroupShuffle(after.begin, j);
    used &= ~bit_of(free).xy;
    map &= ~bit_of(bit);
    count--;
    if (lane == j) {
        state.n += after.n;
        state.info += after.info;
    } else if (lane > j) {
        state = after;
    }
}

fn append(i: f32, t: u32) {
    let free = select(firstTrailingBit(~used.x), 32u + firstTrailingBit(~used.y), used.x == 0xffffffffu);
    let bit = 64u + t;
    used |= bit_of(free).xy;
    map |= bit_of(bit);
    if (lane == count) {
        state = State(1u, i, free, bit, 0u, 0.0);
    }
    count++;
}

// A boundary; returns its event.
fn open(word: u32, i: f32, t: u32) -> u32 {
    var merged = 0u;
    if (CAPACITY == 1u && count == 1u) {
        // The token joins the only state, as those between boundaries do.
        return event(true, 1u, count);
    }
    if (REPLAY) {
        // A given merge may collapse a whole run, as Fenwick's levels do.
        merged = event_merge(word);
        while (merged > 0u && count + 1u > event_count(word)) {
            merge(merged - 1u, next_state());
        }
    } else if (count == CAPACITY) {
        let after = next_state();
        let j = cheapest(after);
        merged = j + 1u;
        merge(j, after);
    }
    append(i, t);
    return event(true, merged, count);
}

// Tokens [from, to) join the newest state; lane by lane, then summed.
fn join(first: u32, end: u32) {
    var sum = 0.0;
    for (var t = first + lane; t < end; t += SUBGROUP) {
        sum += scores[t];
    }
    sum = subgroupAdd(sum);
    if (lane + 1u == count) {
        state.n += end - first;
        state.info += sum;
    }
}

// The first boundary at or after t, or 64.
fn next_boundary(boundaries: vec2<u32>, t: u32) -> u32 {
    var low = boundaries.x;
    var high = boundaries.y;
    if (t < 32u) {
        low &= 0xffffffffu << t;
    } else {
        low = 0u;
        high = select((high >> (t - 32u)) << (t - 32u), 0u, t >= 64u);
    }
    if (low != 0u) {
        return firstTrailingBit(low);
    }
    return select(64u, 32u + firstTrailingBit(high), high != 0u);
}

// The last boundary at or before t, or 64.
fn last_boundary(boundaries: vec2<u32>, t: u32) -> u32 {
    let low = select(boundaries.x, boundaries.x & low_bits(t + 1u), t < 32u);
    let high = select(boundaries.y & low_bits(max(t, 31u) - 31u), 0u, t < 32u);
    if (high != 0u) {
        return 32u + firstLeadingBit(high);
    }
    return select(64u, firstLeadingBit(low), low != 0u);
}

@compute @workgroup_size(SUBGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    let sequence = group_index(group);
    if (sequence >= params.sequences) {
        return;
    }
    lane = index;
    load(sequence);
    for (var chunk = 0u; chunk < params.chunks; chunk++) {
        let valid = chunk_valid(sequence, chunk);
        let first = sequence * params.tokens + chunk_token(chunk);
        let cell = cell_of(sequence, chunk) * CHUNK;
        enter(sequence, chunk, valid);
        let entered = count;
        var bits = vec2<u32>();
        for (var t = lane; t < valid; t += SUBGROUP) {
            let word = trace[first + t];
            let i = bitcast<f32>(word.x);
            scores[t] = select(i, 0.0, non_finite(i));
            events[t] = word.y;
            if (event_boundary(word.y) || (count == 0u && t == 0u)) {
                bits |= bit_of(t).xy;
            }
        }
        let boundaries = subgroupOr(bits);
        workgroupBarrier();

        // From boundary to boundary; tokens between them only join.
        var t = next_boundary(boundaries, 0u);
        join(0u, min(t, valid));
        while (t < valid) {
            let i = scores[t];
            let joins = CAPACITY == 1u && count == 1u;
            let event = open(events[t], i, t);
            if (lane == 0u) {
                events[t] = event;
                maps[t] = map;
            }
            let after = min(next_boundary(boundaries, t + 1u), valid);
            join(select(t + 1u, t, joins), after);
            t = select(after, CHUNK, after == valid);
        }
        workgroupBarrier();
        for (var t = lane; t < CHUNK; t += SUBGROUP) {
            var starts = vec4<u32>();
            if (t < valid) {
                let last = last_boundary(boundaries, t);
                starts = vec4<u32>(low_bits(entered), low_bits(max(entered, 32u) - 32u), 0u, 0u);
                var live = entered;
                if (last < 64u) {
                    starts = maps[last];
                    live = event_count(events[last]);
                }
                if (last == t) {
                    trace[first + t].y = events[t];
                } else {
                    trace[first + t].y = event(false, 0u, live);
                }
            }
            slots[cell + t] = starts;
        }
        leave(chunk, entered, decay[cell + CHUNK - 1u]);
        workgroupBarrier();
    }
    enter(sequence, params.chunks, 0u);
    store(sequence);
}
