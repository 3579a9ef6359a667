// What the chunk's own tokens give under the gated delta rule: M, from delta_read.
@group(0) @binding(3) var<storage, read> mixes: array<f32>;                 // [B H, chunks, C, C] up to its diagonal

// M of tokens y + 16 r against source + x.
fn mix(sequence: u32, chunk: u32, source: u32, valid: u32, lane: u32) -> vec4<f32> {
    let s = source + lane % 16u;
    var mix = vec4<f32>();
    for (var r = 0u; r < 4u; r++) {
        let t = lane / 16u + 16u * r;
        if (t < valid && s <= t) {
            mix[r] = mixes[(cell_of(sequence, chunk) * CHUNK + t) * CHUNK + s];
        }
    }
    return mix;
}
