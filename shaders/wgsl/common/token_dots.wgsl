// Dots of a chunk summed over the key rows.
fn read_dot(cell: u32, t: u32, i: u32) -> f32 {
    var sum = 0.0;
    for (var part = 0u; part < READ_TILES; part++) {
        sum += dots[read_dot_at(cell, part, t, i)];
    }
    return sum;
}

fn write_dot(cell: u32, near: u32, s: u32) -> f32 {
    var sum = 0.0;
    for (var part = 0u; part < KEY_TILES; part++) {
        sum += dots[write_dot_at(cell, part, near, s)];
    }
    return sum;
}
