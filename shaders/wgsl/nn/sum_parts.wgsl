// The sum of as many parts as `layer.rows`, in their order, added to what is there.
@group(0) @binding(1) var<storage, read> parts: array<f32>;          // [parts, count]
@group(0) @binding(2) var<storage, read_write> total: array<f32>;    // [skip + count], the sums from skip on

// One invocation a value.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let at = group_index(group) * 256u + lane;
    if (at >= layer.count) {
        return;
    }
    var sum = 0.0;
    for (var part = 0u; part < layer.rows; part++) {
        sum += parts[part * layer.count + at];
    }
    total[layer.skip + at] += sum;
}
