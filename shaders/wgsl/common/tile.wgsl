// Products of 64 rows by 64 columns: thread (x, y) of 16 x 16 sums rows y + 16 r and columns x + 16 m.
const TILE: u32 = 16u;       // inner indices staged at once
const PITCH: u32 = 65u;      // their row length in workgroup memory, odd to spread the banks

var<workgroup> tile: array<f32, TILE * PITCH>;    // [TILE][64 columns]

// A thread's columns of the staged row i.
fn columns(i: u32, x: u32) -> vec4<f32> {
    let at = i * PITCH + x;
    return vec4<f32>(tile[at], tile[at + 16u], tile[at + 32u], tile[at + 48u]);
}

// Adds the products of the staged columns with each other.
fn add_gram(sum: ptr<function, array<vec4<f32>, 4>>, x: u32, y: u32) {
    for (var i = 0u; i < unrolled(TILE); i++) {
        let across = columns(i, x);
        let down = columns(i, y);
        for (var r = 0u; r < 4u; r++) {
            (*sum)[r] += down[r] * across;
        }
    }
}
