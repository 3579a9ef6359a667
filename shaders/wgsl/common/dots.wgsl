// One chunk's record of dots: inner products of states with gradients, each in parts of 64 key rows, or of 128 where
// the key is wider than 64 and entered states are read.
const KEY_TILES: u32 = (KEY_DIM + 63u) / 64u;
const READ_ROWS: u32 = select(64u, 128u, KEY_DIM > 64u);
const READ_TILES: u32 = (KEY_DIM + READ_ROWS - 1u) / READ_ROWS;
const WRITE_DOTS: u32 = READ_TILES * CHUNK * CAPACITY;
const CARRY_DOTS: u32 = WRITE_DOTS + KEY_TILES * 3u * CHUNK;
const DOTS: u32 = CARRY_DOTS + 3u * CAPACITY;

// What token t reads of entered state i, against do_t; without its read weight.
fn read_dot_at(cell: u32, part: u32, t: u32, i: u32) -> u32 {
    return cell * DOTS + (part * CHUNK + t) * CAPACITY + i;
}

// What token s left in the chunk's final states, against the gradient of its own (near = 1), of the one before (0) and
// of the one after (2).
fn write_dot_at(cell: u32, part: u32, near: u32, s: u32) -> u32 {
    return cell * DOTS + WRITE_DOTS + (part * 3u + near) * CHUNK + s;
}

// The same for entered state i, taken to the chunk's end.
fn carry_dot_at(cell: u32, near: u32, i: u32) -> u32 {
    return cell * DOTS + CARRY_DOTS + near * CAPACITY + i;
}
