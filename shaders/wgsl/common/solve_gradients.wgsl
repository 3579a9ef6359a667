// One chunk's record of solve_gradients: six lower triangles [C, C], row t, column s <= t.
const QUERY_SCORE: u32 = 0u;    // the gradient by q_t.k_s
const KEY_SCORE: u32 = 1u;      // the gradient by k_t.k_s, s < t
const WRITTEN: u32 = 2u;        // e^{A_C - A_t} N_ts: how K~_s holds k_t
const SEEN: u32 = 3u;           // what crosses from s to t, s < t, against its gradient
const KEPT: u32 = 4u;           // what K~_s holds of k_t, against its gradient
const STRENGTH: u32 = 5u;       // the gradient by beta_s is the sum of column s, negated

fn solve_at(cell: u32, which: u32, t: u32, s: u32) -> u32 {
    return ((cell * 6u + which) * CHUNK + t) * CHUNK + s;
}
