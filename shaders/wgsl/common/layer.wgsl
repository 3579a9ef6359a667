// The rows that one dispatch works on, and the part of the weights that it has.
struct Layer {
    rows: u32,      // B T
    tokens: u32,    // T, tokens of every batch item; row b T + t is token t of item b
    first: u32,     // the first row of the weights, counted in the whole matrix
    count: u32,     // rows of the weights
    skip: u32,      // the same first row, counted in the bound block of the matrix
    start: u32,     // the first of the rows
    room: u32,      // tokens that every batch item's kept keys and values have room for
}

@group(0) @binding(0) var<uniform> layer: Layer;

// A grid is at most 65,535 groups wide; larger ones go on in the next row.
fn group_index(id: vec3<u32>) -> u32 {
    return id.y * 65535u + id.x;
}
