// From the gradient by a convolution's outputs after SiLU to that before it, in place; 0 behind a batch item's length.
@group(0) @binding(2) var<storage, read> projected: array<f32>;       // [rows, STRIDE], the input from column FIRST on
@group(0) @binding(3) var<storage, read> weight: array<f32>;          // [CHANNELS, TAPS + 1] newest input's last, then bias
@group(0) @binding(4) var<storage, read_write> d: array<f32>;         // [rows, CHANNELS]

const KEPT: u32 = TAPS - 1u;

// One invocation a value.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let at = group_index(group) * 256u + lane;
    let row = at / CHANNELS;
    let channel = at % CHANNELS;
    if (row >= layer.rows) {
        return;
    }
    let t = row % layer.tokens;
    if (t >= length_of(row / layer.tokens)) {
        d[at] = 0.0;
        return;
    }
    let first = channel * (TAPS + 1u);
    var y = weight[first + TAPS];
    for (var j = 0u; j < TAPS; j++) {
        if (t + j >= KEPT) {
            y += weight[first + j] * projected[(row + j - KEPT) * STRIDE + FIRST + channel];
        }
    }
    d[at] *= silu_slope(y);
}
