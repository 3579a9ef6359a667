// Products of 64 rows by 64 columns from staged factors: thread (x, y) of 16 x 16 sums rows 4 y to 4 y + 3 and columns
// 4 x to 4 x + 3, read four at a time.
const INNER: u32 = 16u;      // inner indices staged at once
const LINE: u32 = 17u;       // vec4s of a staged line, one more than it holds to spread the banks

var<workgroup> rows: array<vec4<f32>, INNER * LINE>;      // [INNER][64 rows]
var<workgroup> across: array<vec4<f32>, INNER * LINE>;    // [INNER][64 columns]

alias Block = array<vec4<f32>, 4>;

fn set_row(i: u32, row: u32, value: f32) {
    rows[i * LINE + row / 4u][row % 4u] = value;
}

fn set_across(i: u32, column: u32, value: f32) {
    across[i * LINE + column / 4u][column % 4u] = value;
}

// Adds rows' across.
fn add_block(sum: ptr<function, Block>, x: u32, y: u32) {
    for (var i = 0u; i < unrolled(INNER); i++) {
        let a = rows[i * LINE + y];
        let b = across[i * LINE + x];
        (*sum)[0] += a.x * b;
        (*sum)[1] += a.y * b;
        (*sum)[2] += a.z * b;
        (*sum)[3] += a.w * b;
    }
}
