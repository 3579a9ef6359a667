// The pairs of a chunk's tokens (t, p), p < t, packed row by row.
const PAIRS: u32 = CHUNK * (CHUNK - 1u) / 2u;

fn pair(t: u32, p: u32) -> u32 {
    return t * (t - 1u) / 2u + p;
}
