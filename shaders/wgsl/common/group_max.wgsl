// The largest of every invocation's x, for all of them; NaN may be passed over. Called in uniform flow.
fn group_max(lane: u32, x: f32) -> f32 {
    partial[lane] = x;
    for (var reach = 128u; reach > 0u; reach /= 2u) {
        workgroupBarrier();
        if (lane < reach) {
            partial[lane] = max(partial[lane], partial[lane + reach]);
        }
    }
    return workgroupUniformLoad(&partial[0]);
}
