// The gradient by a linear map's weights: the sum of dy^T x over a slice of SPAN rows. A group has a tile of a slice, HALVES
// times 64 outputs by as many inputs; of each half invocation (i, j) of 16 x 16 has outputs 4 j to 4 j + 3 and inputs 4 i to
// 4 i + 3.
@group(0) @binding(2) var<storage, read_write> sums: array<vec4<f32>>;    // [rows of the block, WEIGHT_COLUMNS], added to; SPLIT: [slices, count, WEIGHT_COLUMNS]

const TILE: u32 = 64u * HALVES;
const LINE: u32 = 16u * HALVES;    // fours of a tile's line
const STEP: u32 = 16u / HALVES;    // rows that are staged at once
const COLUMN_FOURS: u32 = WEIGHT_COLUMNS / 4u;

var<workgroup> left: array<vec4<f32>, 256>;     // [STEP rows][TILE outputs]
var<workgroup> right: array<vec4<f32>, 256>;    // [STEP rows][TILE inputs]

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
    let across = (INPUTS + TILE - 1u) / TILE;
    let tiles = (layer.count + TILE - 1u) / TILE * across;
    let slice = at / tiles;
    let first_row = slice * SPAN;
    if (first_row >= layer.rows) {
        return;
    }
    let end = min(first_row + SPAN, layer.rows);
    let first_output = at % tiles / across * TILE;
    let first_c = at % across * LINE;
    let line = index / LINE;
    let staged = index % LINE;
    let i = index % 16u;
    let j = index / 16u;
    var sum = array<vec4<f32>, 4u * HALVES * HALVES>();
    var a = staged_outputs(first_row + line, end, first_output + 4u * staged);
    var b = staged_inputs(first_row + line, end, first_c + staged);
    for (var row = first_row; row < end; row += STEP) {
        workgroupBarrier();
        left[index] = a;
        right[index] = b;
        workgroupBarrier();
        // The next ones are under way while these are multiplied.
        a = staged_outputs(row + STEP + line, end, first_output + 4u * staged);
        b = staged_inputs(row + STEP + line, end, first_c + staged);
        for (var k = 0u; k < STEP; k++) {
            for (var half = 0u; half < HALVES; half++) {
                let d = left[k * LINE + 16u * half + j];
                for (var other = 0u; other < HALVES; other++) {
                    let values = right[k * LINE + 16u * other + i];
                    let m = 4u * (half * HALVES + other);
                    sum[m] = fma(vec4<f32>(d.x), values, sum[m]);
                    sum[m + 1u] = fma(vec4<f32>(d.y), values, sum[m + 1u]);
                    sum[m + 2u] = fma(vec4<f32>(d.z), values, sum[m + 2u]);
                    sum[m + 3u] = fma(vec4<f32>(d.w), values, sum[m + 3u]);
                }
            }
        }
    }
    for (var m = 0u; m < 4u * HALVES * HALVES; m++) {
        let half = m / 4u / HALVES;
        let other = m / 4u % HALVES;
        write(slice, first_output + 64u * half + 4u * j + m % 4u, first_c + 16u * other + i, sum[m]);
    }
}
