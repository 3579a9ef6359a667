// How much of an entered state token t reads under a scalar decay: `stale` is the log decay since its version was written.
@group(0) @binding(4) var<storage, read> decay: array<f32>;                 // [B H, chunks, C]

fn entered_scale(cell: u32, t: u32, stale: f32) -> f32 {
    return exp(decay[cell * CHUNK + t] + stale);
}
