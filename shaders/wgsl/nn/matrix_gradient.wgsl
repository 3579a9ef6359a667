// The gradient by a linear map's weights: the sum of dy^T x over a slice of SPAN rows. A group has 64 outputs by 64 inputs
// of a slice, invocation (i, j) of 16 x 16 outputs 4 j to 4 j + 3 and inputs 4 i to 4 i + 3.
@group(0) @binding(2) var<storage, read_write> sums: array<vec4<f32>>;    // [rows of the block, WEIGHT_COLUMNS], added to; SPLIT: [slices, count, WEIGHT_COLUMNS]

const STEP: u32 = 16u;    // rows that are staged at once
const COLUMN_FOURS: u32 = WEIGHT_COLUMNS / 4u;

var<workgroup> left: array<vec4<f32>, 256>;     // [16 rows][64 outputs]
var<workgroup> right: array<vec4<f32>, 256>;    // [16 rows][64 inputs]

fn staged_outputs(row: u32, end: u32, output: u32) -> vec4<f32> {
    if (row < end && output < layer.count) {
        return d_outputs(row, layer.first + output, layer.first + layer.count);
    }
    return vec4<f32>();
}

fn staged_inputs(row: u32, end: u32, c: u32) -> vec4<f32> {
    if (row < end && c < FOURS) {
        return four(row * INPUTS, c);
    }
    return vec4<f32>();
}

fn write(slice: u32, output: u32, c: u32, sum: vec4<f32>) {
    if (output >= layer.count || c >= COLUMN_FOURS) {
        return;
    }
    if (SPLIT) {
        sums[(slice * layer.count + output) * COLUMN_FOURS + c] = sum;
    } else {
        sums[(layer.skip + output) * COLUMN_FOURS + c] += sum;
    }
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    let at = group_index(group);
    let across = (INPUTS + 63u) / 64u;
    let tiles = (layer.count + 63u) / 64u * across;
    let slice = at / tiles;
    let first_row = slice * SPAN;
    if (first_row >= layer.rows) {
        return;
    }
    let end = min(first_row + SPAN, layer.rows);
    let first_output = at % tiles / across * 64u;
    let i = index % 16u;
    let j = index / 16u;
    let c = at % across * 16u + i;
    let output = first_output + 4u * i;
    var sum: array<vec4<f32>, 4>;
    var a = staged_outputs(first_row + j, end, output);
    var b = staged_inputs(first_row + j, end, c);
    for (var row = first_row; row < end; row += STEP) {
        workgroupBarrier();
        left[index] = a;
        right[index] = b;
        workgroupBarrier();
        // The next ones are under way while these are multiplied.
        a = staged_outputs(row + STEP + j, end, output);
        b = staged_inputs(row + STEP + j, end, c);
        for (var k = 0u; k < STEP; k++) {
            let d = left[k * 16u + j];
            let values = right[k * 16u + i];
            sum[0] += d.x * values;
            sum[1] += d.y * values;
            sum[2] += d.z * values;
            sum[3] += d.w * values;
        }
    }
    for (var r = 0u; r < 4u; r++) {
        write(slice, first_output + 4u * j + r, c, sum[r]);
    }
}
