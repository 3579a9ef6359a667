// Weights in f16, rounded to nearest, ties to even. Rounded by bits, for then every device rounds alike, and what is too
// large for f16 is infinite on all of them.
@group(0) @binding(1) var<storage, read> singles: array<vec4<f32>>;         // [count]
@group(0) @binding(2) var<storage, read_write> words: array<vec2<u32>>;     // [count]

fn half(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    let sign = (bits >> 16u) & 0x8000u;
    let size = bits & 0x7fffffffu;
    if (size > 0x7f800000u) {
        return sign | 0x7e00u;
    }
    // 65,520 and more.
    if (size >= 0x477ff000u) {
        return sign | 0x7c00u;
    }
    // Below 2^-14 it is a multiple of 2^-24, and so are the last bits of 0.5 + size.
    if (size < 0x38800000u) {
        return sign | (bitcast<u32>(bitcast<f32>(size) + 0.5) - 0x3f000000u);
    }
    return sign | ((size + 0xfffu + ((size >> 13u) & 1u) - 0x38000000u) >> 13u);
}

// One invocation four values.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let at = group_index(group) * 256u + lane;
    if (at >= layer.count) {
        return;
    }
    let x = singles[at];
    words[at] = vec2<u32>(half(x.x) | (half(x.y) << 16u), half(x.z) | (half(x.w) << 16u));
}
