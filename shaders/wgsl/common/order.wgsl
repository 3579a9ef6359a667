// A sequence's states as scalars in time order, and the capacity rule over them (docs/algorithm.md, Capacity).
//
// No matrix moves: a merged pair keeps its older place, and the newer place is free for the state that opens. One
// thread writes; the others may read after a barrier.
var<workgroup> count: u32;
var<workgroup> n: array<u32, CAPACITY>;
var<workgroup> info: array<f32, CAPACITY>;
var<workgroup> used: array<u32, 2>;              // places that hold a state, 64 bits
var<workgroup> costs: array<u32, CAPACITY>;      // the rank of what merging i and i + 1 costs

// Thread `lane` of `lanes` loads its share; mark_used must follow, after a barrier if there are several.
fn load_order(sequence: u32, lane: u32, lanes: u32) {
    let at = scalar_at(sequence);
    let live = live_states(scalars[at]);
    for (var i = lane; i < live; i += lanes) {
        n[i] = scalars[at + 1u + 3u * i];
        info[i] = bitcast<f32>(scalars[at + 2u + 3u * i]);
        place[i] = place_in_cache(scalars[at + 3u + 3u * i]);
    }
    if (lane == 0u) {
        count = live;
    }
}

fn mark_used() {
    var taken = vec2<u32>();
    for (var i = 0u; i < count; i++) {
        let bit = 1u << (place[i] % 32u);
        taken |= select(vec2<u32>(bit, 0u), vec2<u32>(0u, bit), place[i] >= 32u);
    }
    used = array<u32, 2>(taken.x, taken.y);
}

fn store_order(sequence: u32, lane: u32, lanes: u32) {
    let at = scalar_at(sequence);
    for (var i = lane; i < count; i += lanes) {
        scalars[at + 1u + 3u * i] = n[i];
        scalars[at + 2u + 3u * i] = bitcast<u32>(info[i]);
        scalars[at + 3u + 3u * i] = place[i];
    }
    if (lane == 0u) {
        scalars[at] = count;
    }
}

// Twin of dla-core's dla/compact.rs, for all costs but ward. Thread `lane` of `lanes` measures its share.
fn price(lane: u32, lanes: u32) {
    for (var i = lane; i + 1u < count; i += lanes) {
        costs[i] = i;
        if (COST == 0u) {
            costs[i] = cost_rank((info[i] + info[i + 1u]) / f32(n[i] + n[i + 1u]));
        }
    }
}

// Whether a boundary has to merge the cheapest pair, whose costs must then be known.
fn is_full() -> bool {
    return !REPLAY && CAPACITY > 1u && count == CAPACITY;
}

// The oldest of the cheapest pairs.
fn cheapest() -> u32 {
    var best = 0u;
    for (var i = 1u; i + 1u < count; i++) {
        if (costs[i] < costs[best]) {
            best = i;
        }
    }
    return best;
}

// Joins states j and j + 1; returns the newer one's place, now free.
fn merge(j: u32) -> u32 {
    let free = place[j + 1u];
    used[free / 32u] &= ~(1u << (free % 32u));
    n[j] += n[j + 1u];
    info[j] += info[j + 1u];
    count--;
    for (var i = j + 1u; i < count; i++) {
        n[i] = n[i + 1u];
        info[i] = info[i + 1u];
        place[i] = place[i + 1u];
    }
    return free;
}

fn append(i: f32) {
    let low = ~used[0];
    let free = select(32u + firstTrailingBit(~used[1]), firstTrailingBit(low), low != 0u);
    used[free / 32u] |= 1u << (free % 32u);
    n[count] = 1u;
    info[count] = i;
    place[count] = free;
    count++;
}

fn join(i: f32) {
    n[count - 1u]++;
    info[count - 1u] += i;
}

// One token of score i: merges, then joins or opens. `word` holds a given merge.
fn advance(boundary: bool, word: u32, score: f32) -> Change {
    let i = select(score, 0.0, non_finite(score));
    var change = Change(boundary, 0u, 0u, 0u);
    if (!boundary) {
        join(i);
        return change;
    }
    if (CAPACITY == 1u && count == 1u) {
        change.merged = 1u;
        join(i);
        return change;
    }
    if (REPLAY) {
        // A given merge may collapse a whole run, as Fenwick's levels do.
        change.merged = event_merge(word);
        while (change.merged > 0u && change.merged < count && count + 1u > event_count(word)) {
            freed[change.absorbed] = merge(change.merged - 1u);
            change.absorbed++;
        }
        if (count == CAPACITY) {
            // Decisions that no run could have made: the token joins.
            join(i);
            return change;
        }
    } else if (is_full()) {
        change.merged = cheapest() + 1u;
        freed[0] = merge(change.merged - 1u);
        change.absorbed = 1u;
    }
    append(i);
    change.opened = 1u;
    return change;
}
