// The left factor of a product of 64 by 64, beside the tile.
var<workgroup> left: array<f32, TILE * PITCH>;    // [TILE][64 rows]

// Adds left' tile. Where the staged rows are tokens from `first` on, a token after the row's own is left out, not
// multiplied by 0: it may not be finite.
fn add_product(sum: ptr<function, array<vec4<f32>, 4>>, x: u32, y: u32, causal: bool, first: u32) {
    for (var i = 0u; i < unrolled(TILE); i++) {
        let across = columns(i, x);
        for (var r = 0u; r < 4u; r++) {
            let row = y + 16u * r;
            if (!causal || first + i <= row) {
                (*sum)[r] += left[i * PITCH + row] * across;
            }
        }
    }
}

// Stages columns 16 m to 16 m + 15 of a product as the next one's left factor.
fn stage_left(sum: ptr<function, array<vec4<f32>, 4>>, m: u32, x: u32, y: u32) {
    for (var r = 0u; r < 4u; r++) {
        left[x * PITCH + y + 16u * r] = (*sum)[r][m];
    }
}
