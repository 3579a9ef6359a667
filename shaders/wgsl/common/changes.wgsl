// A token's change between the pass that decides and the pass that moves the states.
const CHANGE: u32 = CAPACITY + 3u;    // one record of changes: opened, merged, absorbed, then freed

fn change_at(sequence: u32) -> u32 {
    return sequence * CHANGE;
}
