// One chunk's record of mix_gradients: three lower triangles [C, C], row t, column s <= t.
const VALUE_MIX: u32 = 0u;     // what value s gives output t, with the read weight
const SCORE_MIX: u32 = 1u;     // the gradient by q_t.k_s (by M_ts for the delta rule)
const READ_MIX: u32 = 2u;      // the gradient by the read weight that t gives s

fn mix_at(cell: u32, which: u32, t: u32, s: u32) -> u32 {
    return ((cell * 3u + which) * CHUNK + t) * CHUNK + s;
}
