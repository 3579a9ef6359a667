// A linear map of SiLU(gate) up: a row of the input is gate, then up.
const NORMED: bool = false;

fn input(row: u32, c: u32) -> vec4<f32> {
    let gate = four(2u * row * INPUTS, c);
    let up = four((2u * row + 1u) * INPUTS, c);
    return vec4<f32>(silu(gate.x), silu(gate.y), silu(gate.z), silu(gate.w)) * up;
}

fn weighted(values: vec4<f32>, c: u32) -> vec4<f32> {
    return values;
}
