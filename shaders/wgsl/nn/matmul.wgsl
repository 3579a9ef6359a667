// A linear map of many rows: y = W x + bias, plus what y holds if RESIDUAL. A group has 64 rows by 64 outputs, invocation
// (i, j) of 16 x 16 rows 4 j to 4 j + 3 and outputs 4 i to 4 i + 3.
@group(0) @binding(2) var<storage, read> bias: array<f32>;          // [OUTPUTS], anything without BIAS
@group(0) @binding(3) var<storage, read_write> y: array<f32>;       // [rows, OUTPUTS]

const STEP: u32 = 4u;        // fours of a row that are staged at once
const PITCH: u32 = 68u;      // their row length in workgroup memory: 64, spread over the banks

var<workgroup> left: array<f32, 4u * STEP * PITCH>;     // [16 inputs][64 rows]
var<workgroup> right: array<f32, 4u * STEP * PITCH>;    // [16 inputs][64 outputs]

fn staged_input(row: u32, c: u32) -> vec4<f32> {
    if (row < layer.rows && c < FOURS) {
        return input(row, c);
    }
    return vec4<f32>();
}

fn staged_weights(output: u32, c: u32) -> vec4<f32> {
    if (output < layer.count && c < FOURS) {
        return weights(layer.skip + output, c);
    }
    return vec4<f32>();
}

fn write(row: u32, output: u32, sum: f32) {
    if (row >= layer.rows || output >= layer.count) {
        return;
    }
    let column = layer.first + output;
    let at = row * OUTPUTS + column;
    var value = sum;
    if (BIAS) {
        value += bias[column];
    }
    if (RESIDUAL) {
        value += y[at];
    }
    y[at] = value;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    let tile = group_index(group);
    let across = (layer.count + 63u) / 64u;
    let first_row = tile / across * 64u;
    let first_output = tile % across * 64u;
    if (first_row >= layer.rows) {
        return;
    }
    let line = index / STEP;
    let staged = index % STEP;
    let i = index % 16u * 4u;
    let j = index / 16u * 4u;
    var sum = array<vec4<f32>, 4>();
    var a = staged_input(first_row + line, staged);
    var b = staged_weights(first_output + line, staged);
    for (var c = 0u; c < FOURS; c += STEP) {
        workgroupBarrier();
        for (var e = 0u; e < 4u; e++) {
            left[(4u * staged + e) * PITCH + line] = a[e];
            right[(4u * staged + e) * PITCH + line] = b[e];
        }
        workgroupBarrier();
        // The next ones are under way while these are multiplied.
        a = staged_input(first_row + line, c + STEP + staged);
        b = staged_weights(first_output + line, c + STEP + staged);
        for (var k = 0u; k < 4u * STEP; k++) {
            let at = k * PITCH + i;
            let outputs = vec4<f32>(right[at], right[at + 1u], right[at + 2u], right[at + 3u]);
            for (var r = 0u; r < 4u; r++) {
                sum[r] += left[k * PITCH + j + r] * outputs;
            }
        }
    }
    for (var r = 0u; r < 4u; r++) {
        for (var m = 0u; m < 4u; m++) {
            write(first_row + j + r, first_output + i + m, sum[r][m]);
        }
    }
}
