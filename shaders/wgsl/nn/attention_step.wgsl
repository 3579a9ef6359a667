// The attention of one token an item over a range of the kept keys; one group a range of a head of a batch item. With room for
// one range only, this is the output.
@group(0) @binding(3) var<storage, read> qkv: array<f32>;              // [B, 3, H, D] queries, keys, values
@group(0) @binding(4) var<storage, read_write> sums: array<f32>;       // [B, H, ranges, D] sum of e^(score - top) values
@group(0) @binding(5) var<storage, read_write> spread: array<f32>;     // [B, H, ranges, 2] top, the sum of e^(score - top)
@group(0) @binding(6) var<storage, read> keys_values: array<f32>;      // [B, room, 2, H, D] keys, values

const TEAM: u32 = 8u;    // invocations that share a key

var<workgroup> query: array<f32, KEY_DIM>;
var<workgroup> weights: array<f32, RANGE>;

// The score of key `first` + lane, one of `count`; 0 behind them. All invocations come here together.
fn score_of(item: u32, head: u32, first: u32, count: u32, lane: u32) -> f32 {
    for (var key = lane / TEAM; key < RANGE; key += 256u / TEAM) {
        var sum = 0.0;
        if (key < count) {
            let at = kept_at(item, first + key, 0u, head);
            for (var column = lane % TEAM; column < KEY_DIM; column += TEAM) {
                sum += query[column] * keys_values[at + column];
            }
        }
        shares[key * (TEAM + 1u) + lane % TEAM] = sum;
    }
    workgroupBarrier();
    var score = 0.0;
    for (var i = 0u; i < TEAM; i++) {
        score += shares[lane * (TEAM + 1u) + i];
    }
    return score / sqrt(f32(KEY_DIM));
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let at = group_index(group);
    let item = at / (HEADS * ranges());
    if (item >= layer.rows) {
        return;
    }
    let head = at / ranges() % HEADS;
    let first = at % ranges() * RANGE;
    let count = min(max(keys_seen(item), first) - first, RANGE);
    if (lane < KEY_DIM) {
        query[lane] = qkv[(item * 3u * HEADS + head) * KEY_DIM + lane];
    }
    workgroupBarrier();
    let score = score_of(item, head, first, count, lane);
    let here = lane < count;
    let top = group_max(lane, select(LOWEST, score, here));
    let weight = select(0.0, exp(score - top), here);
    weights[lane] = weight;
    let total = group_sum(lane, weight);
    var sum = 0.0;
    for (var key = lane / KEY_DIM; key < count && lane < SLICES * KEY_DIM; key += SLICES) {
        sum += weights[key] * keys_values[kept_at(item, first + key, 1u, head) + lane % KEY_DIM];
    }
    sum = column_sum(lane, sum);
    if (ranges() == 1u) {
        sum = select(0.0, sum / total, count > 0u);
    }
    if (lane < KEY_DIM) {
        sums[at * KEY_DIM + lane] = sum;
    }
    if (lane == 0u) {
        spread[at * 2u] = top;
        spread[at * 2u + 1u] = total;
    }
}
