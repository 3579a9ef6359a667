// Tokens of each batch item, four to a vector.
struct Lengths {
    item: array<vec4<u32>, 1024>,
}

@group(0) @binding(1) var<uniform> lengths: Lengths;

// Tokens that item b really has.
fn length_of(b: u32) -> u32 {
    return min(lengths.item[b / 4u][b % 4u], layer.tokens);
}
