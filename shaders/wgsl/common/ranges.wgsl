// The attention of one token an item, its keys in ranges that groups take at the same time.
const RANGE: u32 = 256u;                // keys of a range
const SLICES: u32 = 256u / KEY_DIM;    // columns of a sum that invocations share: at least 2
const LOWEST: f32 = -3.4028234e38;

var<workgroup> shares: array<f32, 2304>;    // parts of sums

// Ranges that every item has room for.
fn ranges() -> u32 {
    return (layer.room + RANGE - 1u) / RANGE;
}

// Keys that an item's token sees, its own included; 0 without a token.
fn keys_seen(item: u32) -> u32 {
    return select(0u, after(item), length_of(item) > 0u);
}

// The sum of every invocation's x by column, lane % KEY_DIM, for the first KEY_DIM of them. Called in uniform flow.
fn column_sum(lane: u32, x: f32) -> f32 {
    workgroupBarrier();
    shares[lane] = x;
    workgroupBarrier();
    var sum = 0.0;
    for (var slice = 0u; slice < SLICES && lane < KEY_DIM; slice++) {
        sum += shares[slice * KEY_DIM + lane];
    }
    return sum;
}
