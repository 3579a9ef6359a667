// Sums over a group of 256.
var<workgroup> partial: array<f32, 256>;

// The sum of every invocation's x, for all of them. Called in uniform flow.
fn group_sum(lane: u32, x: f32) -> f32 {
    workgroupBarrier();
    partial[lane] = x;
    for (var reach = 128u; reach > 0u; reach /= 2u) {
        workgroupBarrier();
        if (lane < reach) {
            partial[lane] += partial[lane + reach];
        }
    }
    workgroupBarrier();
    return partial[0];
}
