// The attention of one token an item from its ranges; one group a head of a batch item.
@group(0) @binding(3) var<storage, read> sums: array<f32>;          // [B, H, ranges, D] sum of e^(score - top) values
@group(0) @binding(4) var<storage, read> spread: array<f32>;        // [B, H, ranges, 2] top, the sum of e^(score - top)
@group(0) @binding(5) var<storage, read_write> o: array<f32>;       // [B, H, D]

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let at = group_index(group);
    let item = at / HEADS;
    if (item >= layer.rows) {
        return;
    }
    let first = at * ranges();
    let count = (keys_seen(item) + RANGE - 1u) / RANGE;
    var top = LOWEST;
    for (var range = lane; range < count; range += 256u) {
        top = max(top, spread[(first + range) * 2u]);
    }
    top = group_max(lane, top);
    var sum = 0.0;
    var total = 0.0;
    for (var range = lane / KEY_DIM; range < count && lane < SLICES * KEY_DIM; range += SLICES) {
        let shrink = exp(spread[(first + range) * 2u] - top);
        sum += shrink * sums[(first + range) * KEY_DIM + lane % KEY_DIM];
        total += shrink * spread[(first + range) * 2u + 1u];
    }
    sum = column_sum(lane, sum);
    total = column_sum(lane, total);
    if (lane < KEY_DIM) {
        o[at * KEY_DIM + lane] = select(0.0, sum / total, count > 0u);
    }
}
