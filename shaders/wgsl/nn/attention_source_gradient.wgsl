// The gradients by attention's keys and values; one group 32 keys of a head of a batch item.

// Inner products of columns i, i + 16 of `pairs` and columns j, j + 16 of `left`, as in products.
fn over_queries(i: u32, j: u32) -> vec4<f32> {
    var sum = vec4<f32>();
    for (var q = 0u; q < TILE; q++) {
        let a = vec2<f32>(pairs[q * PITCH + i], pairs[q * PITCH + i + 16u]);
        let b = vec2<f32>(left[q * PITCH + j], left[q * PITCH + j + 16u]);
        sum += a.xxyy * b.xyxy;
    }
    return sum;
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
    let keys = at % tiles * TILE;
    let i = index / 16u;
    let j = index % 16u;
    var key_sums = array<vec4<f32>, PIECES>();
    var value_sums = array<vec4<f32>, PIECES>();
    for (var queries = keys; queries < layer.tokens; queries += TILE) {
        let share = shares(item, head, queries, keys, index);
        write_pairs(index, share);
        var d = vec4<f32>();
        for (var piece = 0u; piece < PIECES; piece++) {
            workgroupBarrier();
            stage_gradients(item, queries, head, piece, index);
            stage_sources(2u, item, keys, head, piece, index);
            workgroupBarrier();
            d += products(i, j);
            value_sums[piece] += over_queries(i, j);
        }
        workgroupBarrier();
        write_pairs(index, share * (d - dots_of(item, head, queries + i)) / sqrt(f32(KEY_DIM)));
        for (var piece = 0u; piece < PIECES; piece++) {
            workgroupBarrier();
            stage_queries(item, queries, head, piece, index);
            workgroupBarrier();
            key_sums[piece] += over_queries(i, j);
        }
        workgroupBarrier();
    }
    for (var piece = 0u; piece < PIECES; piece++) {
        write_sums(1u, item, head, keys, piece, index, key_sums[piece]);
        write_sums(2u, item, head, keys, piece, index, value_sums[piece]);
    }
}
