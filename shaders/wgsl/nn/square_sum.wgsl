// Sums of squares of 4,096 values each.
@group(0) @binding(1) var<storage, read> gradient: array<f32>;             // [count]
@group(0) @binding(2) var<storage, read_write> squares: array<f32>;        // [skip + groups], the sums from skip on

const SHARE: u32 = 4096u;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let part = group_index(group);
    let first = part * SHARE;
    if (first >= layer.count) {
        return;
    }
    var square = 0.0;
    for (var i = first + lane; i < min(first + SHARE, layer.count); i += 256u) {
        square += gradient[i] * gradient[i];
    }
    let sum = group_sum(lane, square);
    if (lane == 0u) {
        squares[layer.skip + part] = sum;
    }
}
