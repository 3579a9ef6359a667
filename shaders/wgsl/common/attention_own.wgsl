// Attention over the keys and values of the call's own tokens.

fn before(item: u32) -> u32 {
    return 0u;
}

// A column of a token's key (part 1) or value (2); 0 outside.
fn source(part: u32, item: u32, t: u32, head: u32, column: u32) -> f32 {
    return entry(part, item, t, head, column);
}
