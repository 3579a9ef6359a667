// Sums over the columns of a block, row by row: 16 threads share a row.
var<workgroup> partials: array<f32, 64u * 17u>;    // [64 rows][16 threads, 17]

fn row_sum(row: u32) -> f32 {
    var sum = 0.0;
    for (var x = 0u; x < 16u; x++) {
        sum += partials[row * 17u + x];
    }
    return sum;
}
