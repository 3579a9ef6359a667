// What both passes of attention's gradients share.
@group(0) @binding(4) var<storage, read> d_o: array<f32>;                // [rows, H, D]
@group(0) @binding(5) var<storage, read> spread: array<f32>;             // [rows, H] logarithm of the sum of e^score
@group(0) @binding(6) var<storage, read> dots: array<f32>;               // [rows, H] o d_o
@group(0) @binding(7) var<storage, read_write> d_qkv: array<f32>;        // [rows, 3, H, D]

fn stage_gradients(item: u32, first: u32, head: u32, piece: u32, index: u32) {
    for (var i = index; i < TILE * TILE; i += 256u) {
        let t = first + i / TILE;
        let column = piece * TILE + i % TILE;
        var value = 0.0;
        if (t < layer.tokens && column < KEY_DIM) {
            value = d_o[(item * layer.tokens + t) * WIDE + head * KEY_DIM + column];
        }
        left[i / TILE * PITCH + i % TILE] = value;
    }
}

// A tile's weights, from its scores.
fn shares(item: u32, head: u32, queries: u32, keys: u32, index: u32) -> vec4<f32> {
    let score = scores(item, head, queries, keys, index);
    let t = queries + index / 16u;
    let sums = vec2<f32>(of_query(item, t, head), of_query(item, t + 16u, head)).xxyy;
    return select(vec4<f32>(), exp(score - sums), seen(item, queries, keys, index));
}

fn of_query(item: u32, t: u32, head: u32) -> f32 {
    return spread[(item * layer.tokens + min(t, layer.tokens - 1u)) * HEADS + head];
}

// o d_o of an invocation's two queries.
fn dots_of(item: u32, head: u32, t: u32) -> vec4<f32> {
    let a = min(t, layer.tokens - 1u);
    let b = min(t + 16u, layer.tokens - 1u);
    let first = item * layer.tokens;
    return vec2<f32>(dots[(first + a) * HEADS + head], dots[(first + b) * HEADS + head]).xxyy;
}

// Writes an invocation's four sums of lines i, i + 16 from token `first` on, columns j, j + 16 of a piece.
fn write_sums(part: u32, item: u32, head: u32, first: u32, piece: u32, index: u32, sums: vec4<f32>) {
    for (var m = 0u; m < 4u; m++) {
        let t = first + index / 16u + 16u * (m / 2u);
        let column = piece * TILE + index % 16u + 16u * (m % 2u);
        if (t < layer.tokens && column < KEY_DIM) {
            d_qkv[((item * layer.tokens + t) * 3u + part) * WIDE + head * KEY_DIM + column] = sums[m];
        }
    }
}
