// One sequence's scalars between calls: live states, then for each in time order its tokens n, information and place.
fn scalar_at(sequence: u32) -> u32 {
    return sequence * SCALARS;
}

// A caller's buffer is data: whatever it holds, no index leaves the cache.
fn live_states(word: u32) -> u32 {
    return min(word, CAPACITY);
}

fn place_in_cache(word: u32) -> u32 {
    return min(word, CAPACITY - 1u);
}
