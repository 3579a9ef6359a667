// What one token did to the order of a sequence's states.
struct Change {
    boundary: bool,
    opened: u32,          // 1: a state was appended (at capacity 1 a boundary only joins)
    merged: u32,          // 0, or 1 + index of the state that absorbed its successors
    absorbed: u32,        // how many; they lay in freed
}

var<workgroup> place: array<u32, CAPACITY>;      // the order array: time order -> place in memory
var<workgroup> freed: array<u32, CAPACITY>;      // places of the states that this token's merges absorbed, in time order
