// Sums of columns over slices of SPAN rows. A group has 64 columns of a slice, four invocations a column.
@group(0) @binding(1) var<storage, read> source: array<f32>;         // [rows, STRIDE], column c at FIRST + EVERY c
@group(0) @binding(2) var<storage, read_write> parts: array<f32>;    // [slices, COLUMNS]

var<workgroup> quarters: array<f32, 256>;    // [4][64 columns]

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    let at = group_index(group);
    let across = (COLUMNS + 63u) / 64u;
    let slice = at / across;
    if (slice * SPAN >= layer.rows) {
        return;
    }
    let column = at % across * 64u + index % 64u;
    let end = min((slice + 1u) * SPAN, layer.rows);
    var sum = 0.0;
    if (column < COLUMNS) {
        for (var row = slice * SPAN + index / 64u; row < end; row += 4u) {
            sum += source[row * STRIDE + FIRST + EVERY * column];
        }
    }
    quarters[index] = sum;
    workgroupBarrier();
    if (index < 64u && column < COLUMNS) {
        let halves = (quarters[index] + quarters[index + 64u]) + (quarters[index + 128u] + quarters[index + 192u]);
        parts[slice * COLUMNS + column] = halves;
    }
}
