// Copies the first half of a buffer to the second: the rate at which a device moves memory.
@group(0) @binding(0) var<storage, read_write> out: array<vec4<f32>>;

const EACH: u32 = 16u;    // values of one thread

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let half = arrayLength(&out) / 2u;
    let at = group.x * 256u * EACH + lane;
    for (var i = 0u; i < EACH; i++) {
        out[half + at + 256u * i] = out[at + 256u * i];
    }
}
