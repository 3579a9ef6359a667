// Where the keys and values of earlier tokens are kept: [B, room, 2, H, D], the place of a token its number in the sequence.

// Tokens of an item before this call.
fn before(item: u32) -> u32 {
    return min(position_of(item), layer.room);
}

// Tokens of an item with this call's.
fn after(item: u32) -> u32 {
    return min(before(item) + length_of(item), layer.room);
}

// Where the key (part 0) or value (1) of token s begins; s is below the room.
fn kept_at(item: u32, s: u32, part: u32, head: u32) -> u32 {
    return (((item * layer.room + s) * 2u + part) * HEADS + head) * KEY_DIM;
}
