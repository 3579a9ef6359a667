// Matrix products that depend on nothing but themselves: the f16 matrix rate of a device.
enable f16;
enable wgpu_cooperative_matrix;
@group(0) @binding(0) var<storage, read_write> out: array<f32>;

const ROUNDS: u32 = 2048u;

var<workgroup> tile: array<f16, 512>;

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    for (var i = lane; i < 512u; i += 128u) {
        tile[i] = f16(f32(i % 13u) * 0.01);
    }
    workgroupBarrier();
    let a0 = coopLoadT<coop_mat16x16<f16, A>>(&tile[0], 16u);
    let a1 = coopLoadT<coop_mat16x16<f16, A>>(&tile[256], 16u);
    let b0 = coopLoadT<coop_mat16x16<f16, B>>(&tile[0], 16u);
    let b1 = coopLoadT<coop_mat16x16<f16, B>>(&tile[256], 16u);
    var sum00 = coop_mat16x16<f32, C>();
    var sum01 = coop_mat16x16<f32, C>();
    var sum10 = coop_mat16x16<f32, C>();
    var sum11 = coop_mat16x16<f32, C>();
    for (var i = 0u; i < ROUNDS; i++) {
        sum00 = coopMultiplyAdd(a0, b0, sum00);
        sum01 = coopMultiplyAdd(a0, b1, sum01);
        sum10 = coopMultiplyAdd(a1, b0, sum10);
        sum11 = coopMultiplyAdd(a1, b1, sum11);
    }
    let at = (group.x * 4u + lane / 32u) * 1024u;
    coopStoreT(sum00, &out[at], 16u);
    coopStoreT(sum01, &out[at + 256u], 16u);
    coopStoreT(sum10, &out[at + 512u], 16u);
    coopStoreT(sum11, &out[at + 768u], 16u);
}
