// A linear map of the input's root-mean-square norm; the row's scale comes last.
@group(0) @binding(4) var<storage, read> norm: array<f32>;    // [INPUTS]

const NORMED: bool = true;

fn input(row: u32, c: u32) -> vec4<f32> {
    return four(row * INPUTS, c);
}

// The values by the norm's weights; values behind the row's end are 0 already.
fn weighted(values: vec4<f32>, c: u32) -> vec4<f32> {
    var result = values;
    for (var i = 0u; i < 4u; i++) {
        result[i] *= norm[min(4u * c + i, INPUTS - 1u)];
    }
    return result;
}
