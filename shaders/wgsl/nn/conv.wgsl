// A causal convolution of each channel by itself, then SiLU. A group has 32 channels of a batch item and all its tokens,
// 8 at a time; before it writes the state of the next call it has read that of the last.
@group(0) @binding(2) var<storage, read> projected: array<f32>;        // [rows, STRIDE], the input from column FIRST on
@group(0) @binding(3) var<storage, read> weight: array<f32>;           // [CHANNELS, TAPS + 1] newest input's last, then bias
@group(0) @binding(4) var<storage, read_write> state: array<f32>;      // [B, TAPS - 1, CHANNELS] last inputs, oldest first
@group(0) @binding(5) var<storage, read_write> mixed: array<f32>;      // [rows, CHANNELS]

const KEPT: u32 = TAPS - 1u;
const ACROSS: u32 = (CHANNELS + 31u) / 32u;

var<workgroup> before: array<f32, TAPS * 32u>;    // [KEPT][32 channels] and a row to spare

// Input i of an item's window: the kept ones, then the call's.
fn window(b: u32, i: u32, channel: u32) -> f32 {
    if (i < KEPT) {
        return before[i * 32u + channel % 32u];
    }
    return projected[(b * layer.tokens + i - KEPT) * STRIDE + FIRST + channel];
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    let at = group_index(group);
    let b = at / ACROSS;
    if (b * layer.tokens >= layer.rows) {
        return;
    }
    let channel = at % ACROSS * 32u + index % 32u;
    let slot = index / 32u;
    let here = channel < CHANNELS;
    let length = length_of(b);
    if (here && slot < KEPT) {
        before[index] = state[(b * KEPT + slot) * CHANNELS + channel];
    }
    workgroupBarrier();
    if (!here) {
        return;
    }
    let first = channel * (TAPS + 1u);
    for (var t = slot; t < layer.tokens; t += 8u) {
        var y = 0.0;
        if (t < length) {
            y = weight[first + TAPS];
            for (var j = 0u; j < TAPS; j++) {
                y += weight[first + j] * window(b, t + j, channel);
            }
            y = silu(y);
        }
        mixed[(b * layer.tokens + t) * CHANNELS + channel] = y;
    }
    if (slot < KEPT && length > 0u) {
        state[(b * KEPT + slot) * CHANNELS + channel] = window(b, length + slot, channel);
    }
}
