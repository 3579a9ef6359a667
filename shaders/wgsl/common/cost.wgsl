// Costs in the order in which dla-core's dla/compact.rs compares them.

// A cost's rank: of two costs the smaller one has the smaller rank; 0 and -0 are equal, NaN counts as infinity. By bits,
// because compilers may assume that floats are finite.
fn cost_rank(cost: f32) -> u32 {
    let bits = bitcast<u32>(cost);
    let size = bits & 0x7fffffffu;
    if (size == 0u) {
        return 0x80000000u;
    }
    if (size > 0x7f800000u) {
        return 0xff800000u;
    }
    return select(bits | 0x80000000u, ~bits, bits > 0x80000000u);
}
