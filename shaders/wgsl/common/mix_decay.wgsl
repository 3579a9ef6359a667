// What the chunk's own tokens give under a scalar decay: e^{A_t - A_s} q_t.k_s.
@group(0) @binding(3) var<storage, read> q: array<io>;                      // [B, T, G, Dk]
@group(0) @binding(4) var<storage, read> k: array<io>;                      // [B, T, G, Dk]
@group(0) @binding(5) var<storage, read> decay: array<f32>;                 // [B H, chunks, C]

const PART: u32 = 16u;       // columns of q and k staged at once

var<workgroup> queries: array<f32, PART * 64u>;    // [PART][64 tokens]
var<workgroup> keys: array<f32, 16u * 17u>;        // [16 sources][PART, 17]

// Of tokens y + 16 r against source + x.
fn mix(sequence: u32, chunk: u32, source: u32, valid: u32, lane: u32) -> vec4<f32> {
    let first = chunk_token(chunk);
    let x = lane % 16u;
    let y = lane / 16u;
    var dots = vec4<f32>();
    for (var column = 0u; column < KEY_DIM; column += PART) {
        workgroupBarrier();
        for (var e = lane; e < PART * 64u; e += 256u) {
            let t = e / PART;
            let d = column + e % PART;
            var query = 0.0;
            if (t < valid && d < KEY_DIM) {
                query = f32(q[key_at(sequence, first + t) + d]);
            }
            queries[(e % PART) * 64u + t] = query;
        }
        let d = column + x;
        var key = 0.0;
        if (source + y < valid && d < KEY_DIM) {
            key = f32(k[key_at(sequence, first + source + y) + d]);
        }
        keys[y * 17u + x] = key;
        workgroupBarrier();
        for (var i = 0u; i < PART; i++) {
            let line = i * 64u + y;
            dots += keys[x * 17u + i] * vec4<f32>(queries[line], queries[line + 16u], queries[line + 32u], queries[line + 48u]);
        }
    }
    let at = cell_of(sequence, chunk) * CHUNK;
    for (var r = 0u; r < 4u; r++) {
        let t = y + 16u * r;
        if (t < valid && source + x <= t) {
            dots[r] *= exp(decay[at + t] - decay[at + source + x]);
        }
    }
    return dots;
}
