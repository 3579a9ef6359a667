// The gradient by a linear map's input: dx = dy W, plus what dx holds if RESIDUAL. A group has a tile, HALVES
// times 64 rows by as many inputs; of each half invocation (i, j) of 16 x 16 has rows 4 j to 4 j + 3 and inputs 4 i to 4 i + 3.
@group(0) @binding(2) var<storage, read_write> d_x: array<f32>;    // [rows, INPUTS]

const TILE: u32 = 64u * HALVES;
const LINE: u32 = 16u * HALVES;    // fours of a tile's line
const STEP: u32 = 16u / HALVES;    // outputs that are staged at once
const FOURS: u32 = STEP / 4u;      // the same in fours

var<workgroup> left: array<vec4<f32>, 256>;     // [TILE rows][STEP outputs]
var<workgroup> right: array<vec4<f32>, 256>;    // [STEP outputs][TILE inputs]

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
    let across = (INPUTS + TILE - 1u) / TILE;
    let first_row = layer.start + tile / across * TILE;
    let first_input = tile % across * TILE;
    if (first_row >= layer.rows) {
        return;
    }
    let row = first_row + index / FOURS;
    let output = index % FOURS * 4u;
    let line = index / LINE;
    let c = first_input / 4u + index % LINE;
    let i = index % 16u;
    let j = index / 16u;
    var sum = array<vec4<f32>, 4u * HALVES * HALVES>();
    var a = staged_outputs(row, output);
    var b = staged_weights(line, c);
    for (var first = 0u; first < layer.count; first += STEP) {
        workgroupBarrier();
        left[index] = a;
        right[index] = b;
        workgroupBarrier();
        // The next ones are under way while these are multiplied.
        a = staged_outputs(row, first + STEP + output);
        b = staged_weights(first + STEP + line, c);
        for (var k = 0u; k < FOURS; k++) {
            for (var other = 0u; other < HALVES; other++) {
                let at = 4u * k * LINE + 16u * other + i;
                let w = array<vec4<f32>, 4>(right[at], right[at + LINE], right[at + 2u * LINE], right[at + 3u * LINE]);
                for (var r = 0u; r < 4u * HALVES; r++) {
                    let d = left[(r / 4u * 64u + 4u * j + r % 4u) * FOURS + k];
                    let m = r * HALVES + other;
                    sum[m] = fma(vec4<f32>(d.x), w[0], sum[m]);
                    sum[m] = fma(vec4<f32>(d.y), w[1], sum[m]);
                    sum[m] = fma(vec4<f32>(d.z), w[2], sum[m]);
                    sum[m] = fma(vec4<f32>(d.w), w[3], sum[m]);
                }
            }
        }
    }
    for (var m = 0u; m < 4u * HALVES * HALVES; m++) {
        let r = m / HALVES;
        let column = first_input + 64u * (m % HALVES) + 4u * i;
        for (var e = 0u; e < 4u; e++) {
            write(first_row + r / 4u * 64u + 4u * j + r % 4u, column + e, sum[m][e]);
        }
    }
}
