// The capacity rule over scalars, as compact.wgsl, with one subgroup a sequence: lane i holds state i in time order.
// Needs CAPACITY <= SUBGROUP, the smallest subgroup of the device, so that a group is always one subgroup.
//
// Only boundaries are taken one after the other; the tokens between them join all at once.
@group(0) @binding(3) var<storage, read> decay: array<f32>;                 // [B H, chunks, C]
@group(0) @binding(4) var<storage, read_write> trace: array<vec2<u32>>;     // [B H, T] (score, event)
@group(0) @binding(5) var<storage, read_write> scalars: array<u32>;         // [B H, SCALARS]
@group(0) @binding(6) var<storage, read_write> slots: array<vec4<u32>>;     // [B H, chunks, C] slot map
@group(0) @binding(7) var<storage, read_write> entries: array<vec2<u32>>;   // [B H, chunks + 1, 1 + K]

// The lane's state.
struct State {
    n: u32,
    info: f32,
    spot: u32,      // its place, and from bit 8 on where it begins in the slot map's 128 bits
}

var<workgroup> scores: array<f32, CHUNK>;            // 0 spot not finite
var<workgroup> events: array<u32, CHUNK>;            // as given, then as decided
var<workgroup> maps: array<u32, 4u * CHUNK>;         // the slot map after every boundary
var<workgroup> version: array<u32, CAPACITY>;        // by place: the chunk at whose entry the matrix was last written
var<workgroup> stale: array<f32, CAPACITY>;          // by place: log decay since then

var<private> lane: u32;
var<private> state: State;
var<private> map: u32;               // word `lane` of the slot map's four
var<private> count: u32;             // the same in every lane
var<private> used: vec2<u32>;        // the same in every lane: places that hold a state, 64 bits

// The part of a set of bits {x} that lies in word `word`.
fn bit_in(word: u32, x: u32) -> u32 {
    return select(0u, 1u << (x % 32u), x / 32u == word);
}

fn low_bits(bits: u32) -> u32 {
    return select((1u << (bits % 32u)) - 1u, 0xffffffffu, bits >= 32u);
}

// Word `word` of the slot map that a chunk is entered with.
fn entered_map(word: u32, entered: u32) -> u32 {
    let below = 32u * word;
    return select(0u, low_bits(entered - min(entered, below)), word < 2u);
}

fn load(sequence: u32) {
    let at = scalar_at(sequence);
    count = live_states(scalars[at]);
    var bits = vec2<u32>();
    if (lane < count) {
        let place = place_in_cache(scalars[at + 3u + 3u * lane]);
        state = State(scalars[at + 1u + 3u * lane], bitcast<f32>(scalars[at + 2u + 3u * lane]), place);
        bits = vec2<u32>(bit_in(0u, place), bit_in(1u, place));
        version[place] = 0u;
        stale[place] = 0.0;
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
        scalars[at + 3u + 3u * lane] = state.spot & 255u;
    }
}

fn enter(sequence: u32, chunk: u32, valid: u32) {
    let at = entry_at(sequence, chunk);
    if (lane == 0u) {
        entries[at] = vec2<u32>(count, valid);
    }
    let place = state.spot & 255u;
    if (lane < count) {
        entries[at + 1u + lane] = vec2<u32>(place | (version[place] << 8u), bitcast<u32>(stale[place]));
    }
    state.spot = place | (lane << 8u);
    map = entered_map(lane, count);
}

// A state that took tokens or merged in this chunk has a new version; the others only decayed.
fn leave(chunk: u32, entered: u32, total: f32) {
    let begin = state.spot >> 8u;
    let next = subgroupShuffleDown(begin, 1u);
    let end = select(128u, next, lane + 1u < count);
    let states = min(end, entered) - min(begin, entered);
    let place = state.spot & 255u;
    if (lane < count) {
        let rewritten = DELTA || end > 64u || states > 1u;
        version[place] = select(version[place], chunk + 1u, rewritten);
        stale[place] = select(stale[place] + total, 0.0, rewritten);
    }
}

fn next_state() -> State {
    return State(
        subgroupShuffleDown(state.n, 1u),
        subgroupShuffleDown(state.info, 1u),
        subgroupShuffleDown(state.spot, 1u),
    );
}

// Twin of dla-core's dla/compact.rs: the oldest of the cheapest pairs.
fn cheapest(after: State) -> u32 {
    if (COST == 2u) {
        return 0u;
    }
    var rank = 0xffffffffu;
    if (lane + 1u < count) {
        rank = cost_rank((state.info + after.info) / f32(state.n + after.n));
    }
    let least = subgroupMin(rank);
    return subgroupMin(select(0xffffffffu, lane, rank == least));
}

// Joins states j and j + 1; returns the newer one's place, now free.
fn merge(j: u32, after: State) -> u32 {
    let gone = subgroupShuffle(after.spot, j);
    map &= ~bit_in(lane, gone >> 8u);
    count--;
    if (lane == j) {
        state.n += after.n;
        state.info += after.info;
    } else if (lane > j) {
        state = after;
    }
    return gone & 255u;
}

fn append(i: f32, t: u32, free: u32) {
    map |= bit_in(lane, 64u + t);
    if (lane == count) {
        state = State(1u, i, free | ((64u + t) << 8u));
    }
    count++;
}

// A boundary; returns its event.
fn open(word: u32, i: f32, t: u32) -> u32 {
    if (CAPACITY == 1u && count == 1u) {
        join(i, 1u);
        return event(true, 1u, count);
    }
    if (!REPLAY && count == CAPACITY) {
        let after = next_state();
        let j = cheapest(after);
        append(i, t, merge(j, after));
        return event(true, j + 1u, count);
    }
    let merged = select(0u, event_merge(word), REPLAY);
    // A given merge may collapse a whole run, as Fenwick's levels do.
    while (merged > 0u && merged < count && count + 1u > event_count(word)) {
        let freed = merge(merged - 1u, next_state());
        used &= ~vec2<u32>(bit_in(0u, freed), bit_in(1u, freed));
    }
    if (count == CAPACITY) {
        // Decisions that no run could have made: the token joins.
        join(i, 1u);
        return event(true, merged, count);
    }
    let free = select(firstTrailingBit(~used.x), 32u + firstTrailingBit(~used.y), used.x == 0xffffffffu);
    used |= vec2<u32>(bit_in(0u, free), bit_in(1u, free));
    append(i, t, free);
    return event(true, merged, count);
}

fn join(i: f32, tokens: u32) {
    if (lane + 1u == count) {
        state.n += tokens;
        state.info += i;
    }
}

// Tokens [first, end) join the newest state; lane by lane, then summed.
fn join_run(first: u32, end: u32) {
    if (first < end) {
        var sum = 0.0;
        for (var t = first + lane; t < end; t += SUBGROUP) {
            sum += scores[t];
        }
        join(subgroupAdd(sum), end - first);
    }
}

// The last boundary at or before t, or 64.
fn last_boundary(boundaries: vec2<u32>, t: u32) -> u32 {
    let low = boundaries.x & low_bits(t + 1u);
    let high = boundaries.y & select(0u, low_bits(t - 31u), t >= 32u);
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
        workgroupBarrier();
        enter(sequence, chunk, valid);
        let entered = count;
        var bits = vec2<u32>();
        for (var t = lane; t < valid; t += SUBGROUP) {
            let word = trace[first + t];
            let i = bitcast<f32>(word.x);
            scores[t] = select(i, 0.0, non_finite(i));
            events[t] = word.y;
            if (event_boundary(word.y) || (count == 0u && t == 0u)) {
                bits |= vec2<u32>(bit_in(0u, t), bit_in(1u, t));
            }
        }
        let boundaries = subgroupOr(bits);
        workgroupBarrier();

        var done = 0u;
        for (var word = 0u; word < 2u; word++) {
            var left = select(boundaries.x, boundaries.y, word == 1u);
            while (left != 0u) {
                let t = 32u * word + firstTrailingBit(left);
                left &= left - 1u;
                join_run(done, t);
                done = t + 1u;
                let event = open(events[t], scores[t], t);
                if (lane < 4u) {
                    maps[4u * t + lane] = map;
                }
                if (lane == 0u) {
                    events[t] = event;
                }
            }
        }
        join_run(done, valid);
        workgroupBarrier();
        for (var t = lane; t < CHUNK; t += SUBGROUP) {
            var starts = vec4<u32>();
            if (t < valid) {
                let last = last_boundary(boundaries, t);
                var live = entered;
                if (last < 64u) {
                    starts = vec4<u32>(maps[4u * last], maps[4u * last + 1u], maps[4u * last + 2u], maps[4u * last + 3u]);
                    live = event_count(events[last]);
                } else {
                    starts = vec4<u32>(entered_map(0u, entered), entered_map(1u, entered), 0u, 0u);
                }
                trace[first + t].y = select(event(false, 0u, live), events[t], last == t);
            }
            slots[cell + t] = starts;
        }
        leave(chunk, entered, decay[cell + CHUNK - 1u]);
    }
    workgroupBarrier();
    enter(sequence, params.chunks, 0u);
    store(sequence);
}
