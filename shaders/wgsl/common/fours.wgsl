// The input of a linear map, read four values at a time.
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;    // [rows, INPUTS], gated [rows, 2, INPUTS]

const FOURS: u32 = (INPUTS + 3u) / 4u;    // fours of a row, the last one perhaps not full

// Four values from `start + 4 c` on, zeros behind a row's INPUTS.
fn four(start: u32, c: u32) -> vec4<f32> {
    if (INPUTS % 4u == 0u) {
        return x[start / 4u + c];
    }
    var values = vec4<f32>();
    for (var i = 0u; i < 4u; i++) {
        let at = start + 4u * c + i;
        if (4u * c + i < INPUTS) {
            values[i] = x[at / 4u][at % 4u];
        }
    }
    return values;
}
