// The gradient by attention's queries; one group 32 queries of a head of a batch item.
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
    let i = index / 16u;
    let j = index % 16u;
    var sums = array<vec4<f32>, PIECES>();
    for (var keys = 0u; keys <= queries; keys += TILE) {
        let share = shares(item, head, queries, keys, index);
        var d = vec4<f32>();
        for (var piece = 0u; piece < PIECES; piece++) {
            workgroupBarrier();
            stage_gradients(item, queries, head, piece, index);
            stage_sources(2u, item, keys, head, piece, index);
            workgroupBarrier();
            d += products(i, j);
        }
        write_pairs(index, share * (d - dots_of(item, head, queries + i)) / sqrt(f32(KEY_DIM)));
        for (var piece = 0u; piece < PIECES; piece++) {
            workgroupBarrier();
            stage_sources(1u, item, keys, head, piece, index);
            workgroupBarrier();
            sums[piece] += over_keys(i, j);
        }
    }
    for (var piece = 0u; piece < PIECES; piece++) {
        write_sums(0u, item, head, queries, piece, index, sums[piece]);
    }
}
