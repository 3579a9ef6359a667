// The loss of rows of logits and, in place, its gradient by them: (softmax - one at the target) share. One group a row. Rows
// whose target is not below VOCABULARY do not count.
@group(0) @binding(1) var<storage, read> targets: array<u32>;              // [first + rows]
@group(0) @binding(2) var<storage, read> share: array<f32>;                // [1] what a row's loss counts
@group(0) @binding(3) var<storage, read_write> logits: array<f32>;         // [rows, VOCABULARY], then their gradient
@group(0) @binding(4) var<storage, read_write> measures: array<f32>;       // [first + rows, 2] loss; 1 where the largest logit is the target's

var<workgroup> values: array<f32, 256>;
var<workgroup> places: array<u32, 256>;

// Keeps the larger of two logits and its column, among equals the first.
fn keep_larger(lane: u32, other: u32) {
    let a = values[lane];
    let b = values[other];
    if (b > a || (b == a && places[other] < places[lane])) {
        values[lane] = b;
        places[lane] = places[other];
    }
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = group_index(group);
    if (row >= layer.rows) {
        return;
    }
    let first = row * VOCABULARY;
    let aim = targets[layer.first + row];
    let counts = aim < VOCABULARY;
    var best = logits[first + min(lane, VOCABULARY - 1u)];
    var place = min(lane, VOCABULARY - 1u);
    for (var c = lane + 256u; c < VOCABULARY; c += 256u) {
        let value = logits[first + c];
        if (value > best) {
            best = value;
            place = c;
        }
    }
    values[lane] = best;
    places[lane] = place;
    for (var reach = 128u; reach > 0u; reach /= 2u) {
        workgroupBarrier();
        if (lane < reach) {
            keep_larger(lane, lane + reach);
        }
    }
    workgroupBarrier();
    let top = values[0];
    let winner = places[0];
    var sum = 0.0;
    for (var c = lane; c < VOCABULARY; c += 256u) {
        sum += exp(logits[first + c] - top);
    }
    let total = group_sum(lane, sum);
    let at = 2u * (layer.first + row);
    if (lane == 0u) {
        var measure = vec2<f32>();
        if (counts) {
            measure = vec2<f32>(log(total) + (top - logits[first + aim]), select(0.0, 1.0, winner == aim));
        }
        measures[at] = measure.x;
        measures[at + 1u] = measure.y;
    }
    // The target's logit has been read.
    workgroupBarrier();
    for (var c = lane; c < VOCABULARY; c += 256u) {
        var d = 0.0;
        if (counts) {
            d = (exp(logits[first + c] - top) / total - select(0.0, 1.0, c == aim)) * share[0];
        }
        logits[first + c] = d;
    }
}
