// What reaches the states that a chunk was entered with from the outputs that read them, under the gated delta rule:
// sum_t lambda_{t, rank_t(i)} q~_t do_t'. One group a chunk and a tile of the states.
@group(0) @binding(8) var<storage, read_write> carried_gradients: array<columns>;// [B H, chunks, K, Dk, Dv]

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let at = group_index(group);
    let tiles = TILES_DOWN * TILES_ACROSS;
    let chunk = at / tiles % params.chunks;
    let sequence = at / tiles / params.chunks;
    if (sequence >= params.sequences) {
        return;
    }
    let thread = thread_of(sequence, at % tiles, lane);
    let entered = entries[entry_at(sequence, chunk)].x;
    let valid = chunk_valid(sequence, chunk);
    for (var first = 0u; first < entered; first += 4u * FOURS) {
        var sum = Sums();
        add_outer(&sum, thread, chunk, valid, first, lane);
        for (var i = 0u; i < FOURS * 4u; i++) {
            if (thread.live && first + i < entered) {
                carried_gradients[(cell_of(sequence, chunk) * CAPACITY + first + i) * KEY_DIM * ROW + thread.element] = sum[i];
            }
        }
    }
}
