// SiLU(gate) up backwards: the gradient by gate and up, and the product itself for the next map's weights.
@group(0) @binding(1) var<storage, read> opened: array<f32>;              // [rows, 2, WIDTH] gate, up
@group(0) @binding(2) var<storage, read> d_product: array<f32>;           // [rows, WIDTH]
@group(0) @binding(3) var<storage, read_write> d_opened: array<f32>;      // [rows, 2, WIDTH]
@group(0) @binding(4) var<storage, read_write> product: array<f32>;       // [rows, WIDTH]

// One invocation a value of a row.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let at = group_index(group) * 256u + lane;
    let row = at / WIDTH;
    if (row >= layer.rows) {
        return;
    }
    let first = at + row * WIDTH;
    let gate = opened[first];
    let up = opened[first + WIDTH];
    let d = d_product[at];
    d_opened[first] = d * up * silu_slope(gate);
    d_opened[first + WIDTH] = d * silu(gate);
    product[at] = silu(gate) * up;
}
