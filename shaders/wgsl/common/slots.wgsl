// The slot map of one token: which of the states entered with the chunk (xy, 64 bits) and of the chunk's tokens
// (zw, 64 bits) begin a state after this token. A state is a run from one such bit to the next, so the rank of
// whatever lies at x is the number of bits above x.
fn bits_above(low: u32, high: u32, x: u32) -> u32 {
    if (x < 32u) {
        return countOneBits(high) + countOneBits(low & ((0xffffffffu << x) << 1u));
    }
    return countOneBits(high & ((0xffffffffu << (x - 32u)) << 1u));
}

fn rank_of_token(starts: vec4<u32>, s: u32) -> u32 {
    return bits_above(starts.z, starts.w, s);
}

fn rank_of_entered(starts: vec4<u32>, i: u32) -> u32 {
    return bits_above(starts.x, starts.y, i) + countOneBits(starts.z) + countOneBits(starts.w);
}

// Bit x of a 128-bit set.
fn has_bit(starts: vec4<u32>, x: u32) -> bool {
    return ((starts[x / 32u] >> (x % 32u)) & 1u) != 0u;
}

// How many of the 128 bits lie below x.
fn bits_below(starts: vec4<u32>, x: u32) -> u32 {
    let at = vec4<u32>(0u, 32u, 64u, 96u);
    let below = max(vec4<u32>(x), at) - at;
    let mask = select((vec4<u32>(1u) << (below % 32u)) - 1u, vec4<u32>(0xffffffffu), below >= vec4<u32>(32u));
    let count = countOneBits(starts & mask);
    return count.x + count.y + count.z + count.w;
}

// The first bit of `starts` above x, or 128.
fn next_start(starts: vec4<u32>, x: u32) -> u32 {
    var word = (x + 1u) / 32u;
    if (word < 4u) {
        var bits = starts[word] & (0xffffffffu << ((x + 1u) % 32u));
        while (bits == 0u && word < 3u) {
            word++;
            bits = starts[word];
        }
        if (bits != 0u) {
            return word * 32u + firstTrailingBit(bits);
        }
    }
    return 128u;
}
