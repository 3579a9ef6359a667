// Copies columns of rows to where they belong: row `skip` and on of the source to row `first` and on of the target.
@group(0) @binding(1) var<storage, read> source: array<f32>;          // [rows, FROM_STRIDE], from column FROM on
@group(0) @binding(2) var<storage, read_write> target_rows: array<f32>;    // [rows, TO_STRIDE], from column TO on

// One invocation a value.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let at = group_index(group) * 256u + lane;
    let row = at / COLUMNS;
    let column = at % COLUMNS;
    if (row >= layer.rows) {
        return;
    }
    let value = source[(layer.skip + row) * FROM_STRIDE + FROM + column];
    target_rows[(layer.first + row) * TO_STRIDE + TO + column] = value;
}
