// The gradient by a linear map's outputs, read four values at a time.
@group(0) @binding(5) var<storage, read> d_y: array<vec4<f32>>;    // [rows, OUTPUTS]

// Columns `column` to `column + 3` of a row, zeros from column `end` on.
fn d_outputs(row: u32, column: u32, end: u32) -> vec4<f32> {
    let at = row * OUTPUTS + column;
    if (at % 4u == 0u && column + 4u <= end) {
        return d_y[at / 4u];
    }
    var values = vec4<f32>();
    for (var i = 0u; i < 4u; i++) {
        if (column + i < end) {
            values[i] = d_y[(at + i) / 4u][(at + i) % 4u];
        }
    }
    return values;
}
