// Which of the chunk's final states, in time order, holds source x of the slot map (a bit's number).
fn final_state(starts: vec4<u32>, x: u32) -> u32 {
    return bits_below(starts, x + 1u) - 1u;
}
