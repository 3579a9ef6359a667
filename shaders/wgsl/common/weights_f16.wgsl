// Weights in f16, two to a word, row by row.
@group(0) @binding(8) var<storage, read> words: array<vec2<u32>>;    // [rows, WEIGHT_COLUMNS / 4]

// Columns 4 c to 4 c + 3 of a row of the bound block.
fn weights(row: u32, c: u32) -> vec4<f32> {
    let word = words[row * (WEIGHT_COLUMNS / 4u) + c];
    return vec4<f32>(unpack2x16float(word.x), unpack2x16float(word.y));
}
