// Tokens that each batch item has taken in before this call, four to a vector.
struct Positions {
    item: array<vec4<u32>, 1024>,
}

@group(0) @binding(2) var<uniform> positions: Positions;

fn position_of(b: u32) -> u32 {
    return positions.item[b / 4u][b % 4u];
}
