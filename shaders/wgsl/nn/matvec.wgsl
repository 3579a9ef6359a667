// A linear map of at most eight rows: y = W x + bias, plus what y holds if RESIDUAL. Every weight is read once for all
// rows: 32 invocations, a team, take EACH rows of W side by side and then sum up.
@group(0) @binding(2) var<storage, read> bias: array<f32>;          // [OUTPUTS], anything without BIAS
@group(0) @binding(3) var<storage, read_write> y: array<f32>;       // [rows, OUTPUTS]

const TEAMS: u32 = 8u;
const VALUES: u32 = ROWS * EACH;            // sums of a team
const ROUND: u32 = min(VALUES, 8u);         // those that are summed up at once
const AHEAD: u32 = 4u / EACH;               // fours of a row that are under way at once
const PITCH: u32 = 33u;                     // one more than a team, to spread the banks

var<workgroup> sums: array<f32, TEAMS * ROUND * PITCH>;    // [TEAMS][ROUND][team]
var<workgroup> squares: array<f32, ROWS * PITCH>;          // [ROWS][team]

// The sum of a team's 32 numbers.
fn sum_of(line: u32) -> f32 {
    var sum = 0.0;
    for (var i = 0u; i < 32u; i++) {
        sum += sums[line * PITCH + i];
    }
    return sum;
}

// mean(x^2) + epsilon of a row.
fn mean_square(row: u32) -> f32 {
    var sum = 0.0;
    for (var i = 0u; i < 32u; i++) {
        sum += squares[row * PITCH + i];
    }
    return sum / f32(INPUTS) + EPSILON;
}

// W norm(x) of one output, the row in units: where squares leave the range, one invocation sums up all by itself.
fn product_in_units(row: u32, output: u32, unit: f32) -> f32 {
    var sum = 0.0;
    var square = 0.0;
    for (var c = 0u; c < FOURS; c++) {
        let values = input(row, c) * unit;
        square += dot(values, values);
        sum += dot(weights(layer.skip + output, c), weighted(values, c));
    }
    return sum / root_of(square / f32(INPUTS) + in_units(EPSILON, unit));
}

// What the root-mean-square norm makes of a row's product with an output's weights.
fn normed(row: u32, output: u32, sum: f32) -> f32 {
    let mean = mean_square(row);
    let unit = unit_of(mean);
    if (unit != 1.0) {
        return product_in_units(row, output, unit);
    }
    return sum * (1.0 / sqrt(mean));
}

fn write(row: u32, output: u32, sum: f32) {
    if (row >= layer.rows || output >= layer.count) {
        return;
    }
    var value = sum;
    if (NORMED) {
        value = normed(row, output, sum);
    }
    let column = layer.first + output;
    if (BIAS) {
        value += bias[column];
    }
    let at = row * OUTPUTS + column;
    if (RESIDUAL) {
        value += y[at];
    }
    y[at] = value;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    let first = group_index(group) * TEAMS * EACH;
    if (first >= layer.count) {
        return;
    }
    let lane = index % 32u;
    let team = index / 32u;
    var sum = array<f32, VALUES>();
    var square = array<f32, ROWS>();
    for (var start = lane; start < FOURS; start += 32u * AHEAD) {
        // 1. Weights first: memory is far.
        var w = array<vec4<f32>, AHEAD * EACH>();
        for (var i = 0u; i < AHEAD * EACH; i++) {
            let output = min(first + team * EACH + i % EACH, layer.count - 1u);
            w[i] = weights(layer.skip + output, min(start + i / EACH * 32u, FOURS - 1u));
        }
        // 2. Every row of the input against them.
        for (var a = 0u; a < AHEAD; a++) {
            let c = start + a * 32u;
            if (c < FOURS) {
                for (var r = 0u; r < ROWS; r++) {
                    let values = input(min(r, layer.rows - 1u), c);
                    if (NORMED) {
                        square[r] += dot(values, values);
                    }
                    let shaped = weighted(values, c);
                    for (var p = 0u; p < EACH; p++) {
                        sum[r * EACH + p] += dot(w[a * EACH + p], shaped);
                    }
                }
            }
        }
    }
    // 3. Sums over teams. All teams have the same squares.
    if (NORMED && team == 0u) {
        for (var r = 0u; r < ROWS; r++) {
            squares[r * PITCH + lane] = square[r];
        }
    }
    for (var round = 0u; round < VALUES; round += ROUND) {
        workgroupBarrier();
        for (var i = 0u; i < ROUND; i++) {
            sums[(team * ROUND + i) * PITCH + lane] = sum[round + i];
        }
        workgroupBarrier();
        if (index < TEAMS * ROUND) {
            let value = round + index % ROUND;
            write(value / EACH, first + index / ROUND * EACH + value % EACH, sum_of(index));
        }
    }
}
