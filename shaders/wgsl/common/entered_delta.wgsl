// Under the gated delta rule q~ holds the decay already.
fn entered_scale(cell: u32, t: u32, stale: f32) -> f32 {
    return 1.0;
}
