// Causal softmax attention with a running softmax; one group 32 queries of a head of a batch item.
@group(0) @binding(4) var<storage, read_write> o: array<f32>;          // [rows, H, D]
@group(0) @binding(5) var<storage, read_write> spread: array<f32>;     // [rows, H] logarithm of the sum of e^score

var<workgroup> top: array<f32, TILE>;        // the largest score of a query so far
var<workgroup> total: array<f32, TILE>;      // the sum of e^(score - top)
var<workgroup> shrink: array<f32, TILE>;     // what a new top makes of what was summed

// over_keys without the keys that come after a query, so that what those hold never reaches it: `places` are the keys before
// lines i and i + 16, their own included.
fn over_seen(i: u32, j: u32, keys: u32, places: vec2<u32>) -> vec4<f32> {
    var sum = vec4<f32>();
    for (var k = 0u; k < TILE; k++) {
        let a = vec2<f32>(pairs[i * PITCH + k], pairs[(i + 16u) * PITCH + k]);
        let b = vec2<f32>(right[k * PITCH + j], right[k * PITCH + j + 16u]);
        sum += select(vec4<f32>(), a.xxyy * b.xyxy, (vec2<u32>(keys + k) < places).xxyy);
    }
    return sum;
}

fn write(row: u32, line: u32, head: u32, column: u32, sum: f32, inside: bool) {
    if (column < KEY_DIM) {
        o[row * WIDE + head * KEY_DIM + column] = select(0.0, sum / total[line], inside);
    }
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    let tiles = (layer.tokens + TILE - 1u) / TILE;
    let at = group_index(group);
    if (at >= tiles * layer.count) {
        return;
    }
    let pair = layer.first + at / tiles;
    let item = pair / HEADS;
    let head = pair % HEADS;
    let queries = at % tiles * TILE;
    let length = length_of(item);
    let i = index / 16u;
    let j = index % 16u;
    let first = before(item) + queries;
    let end = select(0u, before(item) + min(queries + TILE, length), queries < length);
    var sums = array<vec4<f32>, PIECES>();
    if (index < TILE) {
        top[index] = LOWEST;
        total[index] = 0.0;
    }
    for (var keys = 0u; keys < end; keys += TILE) {
        let score = scores(item, head, queries, keys, index);
        let visible = seen(item, queries, keys, index);
        write_pairs(index, select(vec4<f32>(LOWEST), score, visible));
        workgroupBarrier();
        if (index < TILE) {
            var largest = top[index];
            for (var k = 0u; k < TILE; k++) {
                largest = max(largest, pairs[index * PITCH + k]);
            }
            shrink[index] = exp(top[index] - largest);
            top[index] = largest;
        }
        workgroupBarrier();
        let tops = vec2<f32>(top[i], top[i + 16u]).xxyy;
        write_pairs(index, select(vec4<f32>(), exp(score - tops), visible));
        workgroupBarrier();
        if (index < TILE) {
            var sum = total[index] * shrink[index];
            for (var k = 0u; k < TILE; k++) {
                sum += pairs[index * PITCH + k];
            }
            total[index] = sum;
        }
        let shrinks = vec2<f32>(shrink[i], shrink[i + 16u]).xxyy;
        for (var piece = 0u; piece < PIECES; piece++) {
            workgroupBarrier();
            stage_sources(2u, item, keys, head, piece, index);
            workgroupBarrier();
            var sum = vec4<f32>();
            if (keys + TILE <= first + 1u) {
                sum = over_keys(i, j);
            } else {
                sum = over_seen(i, j, keys, vec2<u32>(first + i + 1u, first + i + 17u));
            }
            sums[piece] = sums[piece] * shrinks + sum;
        }
    }
    workgroupBarrier();
    for (var line = 0u; line < 2u; line++) {
        let t = queries + i + 16u * line;
        let row = item * layer.tokens + t;
        for (var piece = 0u; piece < PIECES && t < layer.tokens; piece++) {
            let column = piece * TILE + j;
            let sum = select(sums[piece].xy, sums[piece].zw, line == 1u);
            write(row, i + 16u * line, head, column, sum.x, t < length);
            write(row, i + 16u * line, head, column + 16u, sum.y, t < length);
        }
    }
    let t = queries + index;
    if (index < TILE && t < layer.tokens) {
        let sum = select(1.0, total[index], t < length);
        spread[(item * layer.tokens + t) * HEADS + head] = select(0.0, top[index] + log(sum), t < length);
    }
}
