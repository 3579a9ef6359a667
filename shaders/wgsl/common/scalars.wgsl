// One sequence's scalars between calls: live states, then for each in time order its tokens n, information and place.
fn scalar_at(sequence: u32) -> u32 {
    return sequence * SCALARS;
}
