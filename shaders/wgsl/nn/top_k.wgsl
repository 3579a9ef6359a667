// The BEST largest numbers of every slice of a row, in order: larger ones first, among equals smaller ids. Where they come
// from is common/candidates_*.wgsl. The pass is repeated on what it found until a row has a single slice.
@group(0) @binding(2) var<storage, read_write> best: array<vec2<u32>>;    // [rows, slices, 1 + BEST] how many are NaN and 0; then bits of f32, id

const SIZE: u32 = 1024u;    // candidates of a group

var<workgroup> keys: array<u32, SIZE>;
var<workgroup> ids: array<u32, SIZE>;
var<workgroup> count: atomic<u32>;

// Exchanges candidates i < j if they are not in the wanted order.
fn exchange(i: u32, j: u32, descending: bool) {
    let a = vec2<u32>(keys[i], ids[i]);
    let b = vec2<u32>(keys[j], ids[j]);
    let first = a.x > b.x || (a.x == b.x && a.y < b.y);
    if (first != descending) {
        keys[i] = b.x;
        ids[i] = b.y;
        keys[j] = a.x;
        ids[j] = a.y;
    }
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let at = group_index(group);
    let slices = (layer.count + SLICE - 1u) / SLICE;
    let row = at / slices;
    if (row >= layer.rows) {
        return;
    }
    if (lane == 0u) {
        atomicStore(&count, 0u);
    }
    workgroupBarrier();
    for (var i = lane; i < SIZE; i += 256u) {
        let entry = candidate(row, at % slices, i);
        keys[i] = entry.x;
        ids[i] = entry.y;
        let wrong = faults(row, at % slices, i);
        if (wrong > 0u) {
            atomicAdd(&count, wrong);
        }
    }
    // Runs of `run` in turn falling and rising, until one falling run is left.
    for (var run = 2u; run <= SIZE; run *= 2u) {
        for (var reach = run / 2u; reach > 0u; reach /= 2u) {
            workgroupBarrier();
            for (var pair = lane; pair < SIZE / 2u; pair += 256u) {
                let i = pair / reach * 2u * reach + pair % reach;
                exchange(i, i + reach, (i & run) == 0u);
            }
        }
    }
    workgroupBarrier();
    let record = at * (BEST + 1u);
    if (lane == 0u) {
        best[record] = vec2<u32>(atomicLoad(&count), 0u);
    }
    if (lane < BEST) {
        best[record + 1u + lane] = vec2<u32>(bits_of(keys[lane]), ids[lane]);
    }
}
