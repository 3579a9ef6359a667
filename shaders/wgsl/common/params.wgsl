// What one dispatch works on, and where things lie.
struct Params {
    tokens: u32,          // T, tokens of every sequence's rows in q, k, v, control, o and trace
    first_token: u32,     // first token of this segment
    chunks: u32,          // chunks of this segment
    segment_chunks: u32,  // chunks that the per-chunk buffers hold for one sequence
    sequences: u32,       // B * H
    steps: u32,           // tokens that the step pass walks in this segment
}

// Tokens of each batch item, four to a vector.
struct Lengths {
    item: array<vec4<u32>, 1024>,
}

// tau of each head, four to a vector.
struct Thresholds {
    item: array<vec4<f32>, (HEADS + 3u) / 4u>,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<uniform> lengths: Lengths;
@group(0) @binding(2) var<uniform> thresholds: Thresholds;

const STATE: u32 = KEY_DIM * VALUE_DIM;      // values of one state
const OPEN: u32 = 2u * STATE + 1u;           // one sequence's record of open: the open state, a mark, workspace
const MEASURED: f32 = 2.0;                   // that mark: 0 no open state, 1 there is one, 2 and the scan measured it
const CONTROL: u32 = CAPACITY + 2u;          // one record of control: g, beta, lambda by rank
const ENTRY: u32 = CAPACITY + 1u;            // one chunk's record of entries: a header, then the states
const SCALARS: u32 = 3u * CAPACITY + 1u;     // one sequence's record of scalars: count, then n, info, place

// The end of a loop that runs `count` times, 1 or more. Software adapters compile unrolled loops for seconds and run them
// no faster: there it is an end that the compiler does not know.
fn unrolled(count: u32) -> u32 {
    return select(min(count, count - 1u + params.sequences), count, UNROLL);
}

// A grid is at most 65,535 groups wide; larger ones go on in the next row.
fn group_index(id: vec3<u32>) -> u32 {
    return id.y * 65535u + id.x;
}

fn item_of(sequence: u32) -> u32 {
    return sequence / HEADS;
}

fn head_of(sequence: u32) -> u32 {
    return sequence % HEADS;
}

fn length_of(sequence: u32) -> u32 {
    let b = item_of(sequence);
    return lengths.item[b / 4u][b % 4u];
}

fn tau_of(sequence: u32) -> f32 {
    let h = head_of(sequence);
    return thresholds.item[h / 4u][h % 4u];
}

// Row of token t in [B, T, H] arrays.
fn token_head(sequence: u32, t: u32) -> u32 {
    return (item_of(sequence) * params.tokens + t) * HEADS + head_of(sequence);
}

fn key_at(sequence: u32, t: u32) -> u32 {
    let group = head_of(sequence) / (HEADS / GROUPS);
    return ((item_of(sequence) * params.tokens + t) * GROUPS + group) * KEY_DIM;
}

fn value_at(sequence: u32, t: u32) -> u32 {
    return token_head(sequence, t) * VALUE_DIM;
}

fn control_at(sequence: u32, t: u32) -> u32 {
    return token_head(sequence, t) * CONTROL;
}

// First token of a chunk of this segment.
fn chunk_token(chunk: u32) -> u32 {
    return params.first_token + chunk * CHUNK;
}

// Tokens of a chunk that the sequence really has.
fn chunk_valid(sequence: u32, chunk: u32) -> u32 {
    let t = chunk_token(chunk);
    let length = min(length_of(sequence), params.tokens);
    return select(min(length - t, CHUNK), 0u, length <= t);
}

// Where a chunk's record lies in the buffers that keep one record a chunk.
fn cell_of(sequence: u32, chunk: u32) -> u32 {
    return sequence * params.segment_chunks + chunk;
}

// The same in entries, which keeps one record more, for the state after the last chunk.
fn entry_at(sequence: u32, chunk: u32) -> u32 {
    return (sequence * (params.segment_chunks + 1u) + chunk) * ENTRY;
}

// Decays below e^-110 are 0 in f32; clamping them keeps running sums exact where it matters.
fn log_decay(g: f32) -> f32 {
    return select(g, -110.0, g < -110.0);
}
