// Multiply-adds that depend on nothing but themselves: the f32 arithmetic rate of a device.
@group(0) @binding(0) var<storage, read_write> out: array<f32>;

const ROUNDS: u32 = 4096u;

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let a = vec4<f32>(f32(id.x & 7u) * 1e-3);
    var x0 = a;
    var x1 = a + 1.0;
    var x2 = a + 2.0;
    var x3 = a + 3.0;
    for (var i = 0u; i < ROUNDS; i++) {
        x0 = fma(x0, a, x1);
        x1 = fma(x1, a, x2);
        x2 = fma(x2, a, x3);
        x3 = fma(x3, a, x0);
    }
    let sum = x0 + x1 + x2 + x3;
    out[id.x] = sum.x + sum.y + sum.z + sum.w;
}
