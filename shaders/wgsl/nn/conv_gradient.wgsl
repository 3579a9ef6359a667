// A causal convolution backwards. A group has 32 channels of a slice of SPAN rows, 8 rows at a time.
@group(0) @binding(2) var<storage, read> projected: array<f32>;             // [rows, STRIDE], the input from column FIRST on
@group(0) @binding(3) var<storage, read> weight: array<f32>;                // [CHANNELS, TAPS + 1] newest input's last, then bias
@group(0) @binding(4) var<storage, read> d: array<f32>;                     // [rows, CHANNELS] by the outputs before SiLU
@group(0) @binding(5) var<storage, read_write> d_projected: array<f32>;     // [rows, STRIDE], the input's columns are written
@group(0) @binding(6) var<storage, read_write> parts: array<f32>;           // [slices, CHANNELS, TAPS + 1] the weight's gradient

const KEPT: u32 = TAPS - 1u;
const ACROSS: u32 = (CHANNELS + 31u) / 32u;

var<workgroup> eighths: array<f32, 256>;    // [8][32 channels]

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    let at = group_index(group);
    let slice = at / ACROSS;
    if (slice * SPAN >= layer.rows) {
        return;
    }
    let channel = at % ACROSS * 32u + index % 32u;
    let here = channel < CHANNELS;
    let first = channel * (TAPS + 1u);
    let end = min((slice + 1u) * SPAN, layer.rows);
    var sums = array<f32, TAPS + 1u>();
    for (var row = slice * SPAN + index / 32u; here && row < end; row += 8u) {
        let t = row % layer.tokens;
        let length = length_of(row / layer.tokens);
        var d_input = 0.0;
        for (var j = 0u; j < TAPS; j++) {
            let ahead = KEPT - j;
            if (t + ahead < length) {
                d_input += weight[first + j] * d[(row + ahead) * CHANNELS + channel];
            }
            if (t < length && t >= ahead) {
                sums[j] += projected[(row - ahead) * STRIDE + FIRST + channel] * d[row * CHANNELS + channel];
            }
        }
        if (BIAS && t < length) {
            sums[TAPS] += d[row * CHANNELS + channel];
        }
        d_projected[row * STRIDE + FIRST + channel] = d_input;
    }
    for (var j = 0u; j <= TAPS; j++) {
        workgroupBarrier();
        eighths[index] = sums[j];
        workgroupBarrier();
        if (index < 32u && here) {
            var sum = 0.0;
            for (var i = 0u; i < 8u; i++) {
                sum += eighths[i * 32u + index];
            }
            parts[slice * CHANNELS * (TAPS + 1u) + first + j] = sum;
        }
    }
}
