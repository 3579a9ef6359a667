// Sums over a group of 256.
var<workgroup> partial: array<f32, 256>;

// The sum of every invocation's x, for all of them, which may branch on it together. Called in uniform flow.
fn group_sum(lane: u32, x: f32) -> f32 {
    partial[lane] = x;
    for (var reach = 128u; reach > 0u; reach /= 2u) {
        workgroupBarrier();
        if (lane < reach) {
            partial[lane] += partial[lane + reach];
        }
    }
    return workgroupUniformLoad(&partial[0]);
}
