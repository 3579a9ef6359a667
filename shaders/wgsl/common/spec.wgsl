// The constants of one specialisation. The host puts its own values in this file's place; these let every pass parse alone.
alias io = f32;                      // element type of q, k, v, o and the state versions: f32 or f16
const HEADS: u32 = 4u;               // H, value heads
const GROUPS: u32 = 2u;              // G, key groups; head h reads group h / (H / G)
const KEY_DIM: u32 = 16u;            // Dk
const VALUE_DIM: u32 = 16u;          // Dv
const CAPACITY: u32 = 8u;            // K, states a cache holds
const CHUNK: u32 = 64u;              // C, tokens of one chunk, at most 64
const RMS: bool = true;              // the score compares root-mean-square normalised matrices
const EPSILON: f32 = 1e-12;          // the score's epsilon
const COST: u32 = 0u;                // which pair a full cache merges: 0 density, 1 ward, 2 oldest
const REPLAY: bool = false;          // decisions are given instead of made
const MEASURE: bool = true;          // the schedule measures scores
const DELTA: bool = false;           // the gated delta rule instead of a scalar decay
const SLICE: u32 = 4u;               // columns (1 or 4 values) of a state that one group of the step moves, a power of two
const UNROLL: bool = true;           // loops over a tile are unrolled
const SUBGROUP: u32 = 8u;            // the device's smallest subgroup, for passes that use subgroups
