// lambda = softplus(L p + a) by rank (docs/algorithm.md, Readout), p a column of the projection.
@group(0) @binding(3) var<storage, read> projected: array<f32>;    // [rows, STRIDE]
@group(0) @binding(4) var<storage, read> read_weights: array<f32>;    // [2, H, K] L and a, anything without READ

// The level of the state of a rank, where the states hold `position` tokens (Log-Linear attention).
fn level_of(rank: u32, position: u32) -> u32 {
    if (rank == 0u) {
        return 0u;
    }
    var bits = position - 1u;
    for (var i = 1u; i < rank; i++) {
        bits &= bits - 1u;
    }
    return 1u + firstTrailingBit(bits);
}

// lambda of a row's head and rank; 0 for ranks that no state has.
fn read_weight(row: u32, head: u32, rank: u32) -> f32 {
    var index = rank;
    if (FENWICK) {
        let position = position_of(row / layer.tokens) + row % layer.tokens + 1u;
        if (rank > countOneBits(position - 1u)) {
            return 0.0;
        }
        index = min(level_of(rank, position), CAPACITY - 1u);
    }
    if (!READ) {
        return 1.0;
    }
    let at = head * CAPACITY + index;
    return softplus(read_weights[at] * projected[row * STRIDE + LAMBDA + at] + read_weights[HEADS * CAPACITY + at]);
}
