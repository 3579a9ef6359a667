// Weights in f32, row by row.
@group(0) @binding(8) var<storage, read> words: array<vec4<f32>>;    // [rows, WEIGHT_COLUMNS / 4]

// Columns 4 c to 4 c + 3 of a row of the bound block.
fn weights(row: u32, c: u32) -> vec4<f32> {
    return words[row * (WEIGHT_COLUMNS / 4u) + c];
}
