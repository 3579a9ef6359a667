// Candidates for the largest values: a key, larger for larger numbers, and an id.
const LOWEST: u32 = 0x007fffffu;                               // the key of minus infinity
const NOTHING: vec2<u32> = vec2<u32>(LOWEST, 0xffffffffu);     // behind every candidate

fn not_a_number(bits: u32) -> bool {
    return (bits & 0x7fffffffu) > 0x7f800000u;
}

// The key of a number's bits: NaN as minus infinity, the two zeros as one.
fn key_of(bits: u32) -> u32 {
    if (not_a_number(bits)) {
        return LOWEST;
    }
    if (bits == 0x80000000u) {
        return 0x80000000u;
    }
    return select(bits | 0x80000000u, ~bits, bits > 0x7fffffffu);
}

fn bits_of(key: u32) -> u32 {
    return select(~key, key & 0x7fffffffu, key > 0x7fffffffu);
}
