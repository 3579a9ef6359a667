// The gradient by a linear map's input: dx = dy W, plus what dx holds if RESIDUAL. A group has 64 rows by 64 inputs,
// invocation (i, j) of 16 x 16 rows 4 j to 4 j + 3 and inputs 4 i to 4 i + 3.
@group(0) @binding(2) var<storage, read_write> d_x: array<f32>;    // [rows, INPUTS]

const STEP: u32 = 16u;    // outputs that are staged at once

var<workgroup> left: array<vec4<f32>, 256>;     // [64 rows][16 outputs]
var<workgroup> right: array<vec4<f32>, 256>;    // [16 outputs][64 inputs]

fn staged_outputs(row: u32, output: u32) -> vec4<f32> {
    if (row < layer.rows && output < layer.count) {
        return d_outputs(row, layer.first + output, layer.first + layer.count);
    }
    return vec4<f32>();
}

fn staged_weights(output: u32, c: u32) -> vec4<f32> {
    if (output < layer.count && c < WEIGHT_COLUMNS / 4u) {
        return weights(layer.skip + output, c);
    }
    return vec4<f32>();
}

fn write(row: u32, column: u32, sum: f32) {
    if (row >= layer.rows || column >= INPUTS) {
        return;
    }
    let at = row * INPUTS + column;
    var value = sum;
    if (RESIDUAL) {
        value += d_x[at];
    }
    d_x[at] = value;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    let tile = group_index(group);
    let across = (INPUTS + 63u) / 64u;
    let first_row = layer.start + tile / across * 64u;
    let first_input = tile % across * 64u;
    if (first_row >= layer.rows) {
        return;
    }
    let row = first_row + index / 4u;
    let output = index % 4u * 4u;
    let c = first_input / 4u + index % 16u;
    let i = index % 16u;
    let j = index / 16u;
    var sum: array<vec4<f32>, 4>;
    var a = staged_outputs(row, output);
    var b = staged_weights(j, c);
    for (var first = 0u; first < layer.count; first += STEP) {
        workgroupBarrier();
        left[index] = a;
        right[index] = b;
        workgroupBarrier();
        // The next ones are under way while these are multiplied.
        a = staged_outputs(row, first + STEP + output);
        b = staged_weights(first + STEP + j, c);
        for (var k = 0u; k < STEP; k += 4u) {
            let at = k * 16u + i;
            let w = array<vec4<f32>, 4>(right[at], right[at + 16u], right[at + 32u], right[at + 48u]);
            for (var r = 0u; r < 4u; r++) {
                let d = left[(4u * j + r) * 4u + k / 4u];
                sum[r] += d.x * w[0] + d.y * w[1] + d.z * w[2] + d.w * w[3];
            }
        }
    }
    for (var r = 0u; r < 4u; r++) {
        for (var m = 0u; m < 4u; m++) {
            write(first_row + 4u * j + r, first_input + 4u * i + m, sum[r][m]);
        }
    }
}
