// The sums of the pieces of every id, added to its row of the table's gradient. A group has the id whose rows begin at its
// place, if one does.
@group(0) @binding(1) var<storage, read> order: array<u32>;               // [places, 3] row, first place and end of the rows with its id
@group(0) @binding(2) var<storage, read> ids: array<u32>;                 // [rows]
@group(0) @binding(3) var<storage, read> d_x: array<f32>;                 // [rows, WIDTH] sums of pieces in their first rows
@group(0) @binding(4) var<storage, read_write> d_table: array<f32>;       // [count, WEIGHT_COLUMNS]

const PIECE: u32 = 32u;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let place = group_index(group);
    if (place >= layer.rows) {
        return;
    }
    let end = order[3u * place + 2u];
    let id = ids[order[3u * place]];
    if (place != order[3u * place + 1u] || end <= place || id < layer.first || id - layer.first >= layer.count) {
        return;
    }
    for (var e = lane; e < WIDTH; e += 256u) {
        var sum = 0.0;
        for (var i = place; i < end; i += PIECE) {
            sum += d_x[order[3u * i] * WIDTH + e];
        }
        d_table[(id - layer.first) * WEIGHT_COLUMNS + e] += sum;
    }
}
