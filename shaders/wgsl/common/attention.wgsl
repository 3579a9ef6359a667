// Softmax attention by tiles of 32 queries by 32 keys; invocation (i, j) of 16 x 16 has lines i, i + 16 and columns j, j + 16
// of a tile. Vectors are staged 32 columns at a time. Where keys and values come from is another part's to say: `source`, and
// `before`, the tokens that an item's first query follows.
@group(0) @binding(3) var<storage, read> qkv: array<f32>;    // [rows, 3, H, D] queries, keys, values

const TILE: u32 = 32u;
const PITCH: u32 = 33u;                             // one more than a tile, to spread the banks
const PIECES: u32 = (KEY_DIM + TILE - 1u) / TILE;   // pieces of a vector, the last one perhaps not full
const WIDE: u32 = HEADS * KEY_DIM;
const LOWEST: f32 = -3.4028234e38;

var<workgroup> left: array<f32, TILE * PITCH>;      // [32 queries][32 columns]
var<workgroup> right: array<f32, TILE * PITCH>;     // [32 keys][32 columns]
var<workgroup> pairs: array<f32, TILE * PITCH>;     // [32 queries][32 keys]

// A column of a token's query (part 0), key (1) or value (2); 0 outside.
fn entry(part: u32, item: u32, t: u32, head: u32, column: u32) -> f32 {
    if (t >= layer.tokens || column >= KEY_DIM) {
        return 0.0;
    }
    return qkv[((item * layer.tokens + t) * 3u + part) * WIDE + head * KEY_DIM + column];
}

fn stage_queries(item: u32, first: u32, head: u32, piece: u32, index: u32) {
    for (var i = index; i < TILE * TILE; i += 256u) {
        left[i / TILE * PITCH + i % TILE] = entry(0u, item, first + i / TILE, head, piece * TILE + i % TILE);
    }
}

// Keys (part 1) or values (part 2).
fn stage_sources(part: u32, item: u32, first: u32, head: u32, piece: u32, index: u32) {
    for (var i = index; i < TILE * TILE; i += 256u) {
        right[i / TILE * PITCH + i % TILE] = source(part, item, first + i / TILE, head, piece * TILE + i % TILE);
    }
}

// Inner products of lines i, i + 16 of `left` and lines j, j + 16 of `right`: (i, j), (i, j + 16), (i + 16, j), (i + 16, j + 16).
fn products(i: u32, j: u32) -> vec4<f32> {
    var sum = vec4<f32>();
    for (var c = 0u; c < TILE; c++) {
        let a = vec2<f32>(left[i * PITCH + c], left[(i + 16u) * PITCH + c]);
        let b = vec2<f32>(right[j * PITCH + c], right[(j + 16u) * PITCH + c]);
        sum += a.xxyy * b.xyxy;
    }
    return sum;
}

// The same of lines i, i + 16 of `pairs` and columns j, j + 16 of `right`.
fn over_keys(i: u32, j: u32) -> vec4<f32> {
    var sum = vec4<f32>();
    for (var k = 0u; k < TILE; k++) {
        let a = vec2<f32>(pairs[i * PITCH + k], pairs[(i + 16u) * PITCH + k]);
        let b = vec2<f32>(right[k * PITCH + j], right[k * PITCH + j + 16u]);
        sum += a.xxyy * b.xyxy;
    }
    return sum;
}

// Scores of a tile, scaled. All invocations come here together.
fn scores(item: u32, head: u32, queries: u32, keys: u32, index: u32) -> vec4<f32> {
    var sum = vec4<f32>();
    for (var piece = 0u; piece < PIECES; piece++) {
        workgroupBarrier();
        stage_queries(item, queries, head, piece, index);
        stage_sources(1u, item, keys, head, piece, index);
        workgroupBarrier();
        sum += products(index / 16u, index % 16u);
    }
    return sum / sqrt(f32(KEY_DIM));
}

// Which of an invocation's four pairs are a query of the item and a key that it sees.
fn seen(item: u32, queries: u32, keys: u32, index: u32) -> vec4<bool> {
    let i = queries + index / 16u;
    let j = keys + index % 16u;
    let query = vec4<u32>(i, i, i + 16u, i + 16u);
    let key = vec4<u32>(j, j + 16u, j, j + 16u);
    return (key <= query + before(item)) & (query < vec4<u32>(length_of(item)));
}

fn write_pairs(index: u32, values: vec4<f32>) {
    let at = index / 16u * PITCH + index % 16u;
    pairs[at] = values.x;
    pairs[at + 16u] = values.y;
    pairs[at + 16u * PITCH] = values.z;
    pairs[at + 16u * PITCH + 16u] = values.w;
}
