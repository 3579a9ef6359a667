// Weights in 8-bit integers, four to a word, row by row; 32 of them share a scale.
@group(0) @binding(8) var<storage, read> words: array<u32>;     // [rows, WEIGHT_COLUMNS / 4]
@group(0) @binding(9) var<storage, read> scales: array<f32>;    // [rows, WEIGHT_COLUMNS / 32]

// Columns 4 c to 4 c + 3 of a row of the bound block.
fn weights(row: u32, c: u32) -> vec4<f32> {
    let word = vec4<u32>(words[row * (WEIGHT_COLUMNS / 4u) + c]) << vec4<u32>(24u, 16u, 8u, 0u);
    let scale = scales[row * (WEIGHT_COLUMNS / 32u) + c / 8u];
    return scale * vec4<f32>(bitcast<vec4<i32>>(word) >> vec4<u32>(24u));
}
