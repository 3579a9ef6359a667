// One word a token: what was decided there. Bit 0: boundary; bits 8-15: merge_at + 1; bits 16-23: count.
fn event(boundary: bool, merge_at: u32, count: u32) -> u32 {
    return select(0u, 1u, boundary) | (merge_at << 8u) | (count << 16u);
}

fn event_boundary(word: u32) -> bool {
    return (word & 1u) != 0u;
}

fn with_boundary(word: u32, boundary: bool) -> u32 {
    return (word & 0xfffffffeu) | select(0u, 1u, boundary);
}

fn event_count(word: u32) -> u32 {
    return (word >> 16u) & 255u;
}

// 0 where nothing merged, else 1 + the time-order index of the older state of the pair.
fn event_merge(word: u32) -> u32 {
    return (word >> 8u) & 255u;
}
