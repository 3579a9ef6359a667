// Vectors of equal ids are summed, 32 at a time: the sum of a piece lies in its first row. A group has the piece that begins
// at its place, if one does.
@group(0) @binding(1) var<storage, read> order: array<u32>;          // [places, 3] row, first place and end of the rows with its id
@group(0) @binding(2) var<storage, read_write> d_x: array<f32>;      // [rows, WIDTH]

const PIECE: u32 = 32u;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let place = group_index(group);
    if (place >= layer.rows) {
        return;
    }
    let first = order[3u * place + 1u];
    let end = min(place + PIECE, order[3u * place + 2u]);
    if ((place - first) % PIECE != 0u || end <= place + 1u) {
        return;
    }
    for (var e = lane; e < WIDTH; e += 256u) {
        var sum = 0.0;
        for (var i = place; i < end; i++) {
            sum += d_x[order[3u * i] * WIDTH + e];
        }
        d_x[order[3u * place] * WIDTH + e] = sum;
    }
}
