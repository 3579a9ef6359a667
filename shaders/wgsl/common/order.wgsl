// A sequence's states as scalars in time order, and the capacity rule over them (docs/algorithm.md, Capacity).
//
// No matrix moves: `place` is the order array (time order -> place in memory), a merged pair keeps its older place,
// and the newer place is free for the state that opens. One thread writes; the others may read after a barrier.
var<workgroup> count: u32;
var<workgroup> n: array<u32, CAPACITY>;
var<workgroup> info: array<f32, CAPACITY>;
var<workgroup> place: array<u32, CAPACITY>;
var<workgroup> used: array<u32, 2>;              // places that hold a state, 64 bits
var<workgroup> freed: array<u32, CAPACITY>;      // places of the states that this token's merges absorbed, in time order
var<workgroup> ward: array<f32, CAPACITY>;       // COST 1: what merging i and i + 1 costs, measured by the pass

// What one token did to the order.
struct Change {
    boundary: bool,
    opened: u32,          // 1: a state was appended (at capacity 1 a boundary only joins)
    merged: u32,          // 0, or 1 + index of the state that absorbed its successors
    absorbed: u32,        // how many; they lay in freed
}

// Thread `lane` of `lanes` loads its share; mark_used must follow, after a barrier if there are several.
fn load_order(sequence: u32, lane: u32, lanes: u32) {
    let at = scalar_at(sequence);
    let live = scalars[at];
    for (var i = lane; i < live; i += lanes) {
        n[i] = scalars[at + 1u + 3u * i];
        info[i] = bitcast<f32>(scalars[at + 2u + 3u * i]);
        place[i] = scalars[at + 3u + 3u * i];
    }
    if (lane == 0u) {
        count = live;
    }
}

fn mark_used() {
    used = array<u32, 2>();
    for (var i = 0u; i < count; i++) {
        used[place[i] / 32u] |= 1u << (place[i] % 32u);
    }
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

// Twin of dla-core's dla/compact.rs.
fn cost(i: u32) -> f32 {
    if (COST == 2u) {
        return f32(i);
    }
    if (COST == 1u) {
        return ward[i];
    }
    return (info[i] + info[i + 1u]) / f32(n[i] + n[i + 1u]);
}

// A cost that is not finite is never the least, unless all are: then the oldest pair merges.
fn cheapest() -> u32 {
    var best = 0u;
    var least = cost(0u);
    for (var i = 1u; i + 1u < count; i++) {
        let x = cost(i);
        if (!non_finite(x) && (non_finite(least) || x < least)) {
            least = x;
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
        while (change.merged > 0u && count + 1u > event_count(word)) {
            freed[change.absorbed] = merge(change.merged - 1u);
            change.absorbed++;
        }
    } else if (count == CAPACITY) {
        change.merged = cheapest() + 1u;
        freed[0] = merge(change.merged - 1u);
        change.absorbed = 1u;
    }
    append(i);
    change.opened = 1u;
    return change;
}
