// Token ids to vectors. A matrix in several blocks takes one dispatch for each; every one writes the rows whose ids are
// in its block, and the first one zeros where a batch item has no token or the table no such id.
@group(0) @binding(2) var<storage, read> ids: array<u32>;           // [rows]
@group(0) @binding(3) var<storage, read_write> x: array<f32>;       // [rows, WIDTH]

const FOURS: u32 = (WIDTH + 3u) / 4u;

// One invocation four values.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let at = group_index(group) * 256u + lane;
    let row = at / FOURS;
    let c = at % FOURS;
    if (row >= layer.rows) {
        return;
    }
    let id = ids[row];
    var values = vec4<f32>();
    if (row % layer.tokens < length_of(row / layer.tokens) && id < VOCABULARY) {
        if (id < layer.first || id - layer.first >= layer.count) {
            return;
        }
        values = weights(id - layer.first, c);
    } else if (layer.first > 0u) {
        return;
    }
    for (var i = 0u; i < 4u; i++) {
        if (4u * c + i < WIDTH) {
            x[row * WIDTH + 4u * c + i] = values[i];
        }
    }
}
