// The constants of one layer. The host puts a layer's own in this file's place; these let every pass parse alone.
const INPUTS: u32 = 40u;             // values of a row before a linear map
const OUTPUTS: u32 = 24u;            // values of a row after it
const WEIGHT_COLUMNS: u32 = 64u;     // INPUTS with the zeros behind them that the weights' type asks for
const ROWS: u32 = 2u;                // rows that matvec takes at once: 1, 2, 4 or 8
const EACH: u32 = 2u;                // outputs of 32 invocations of matvec: 1, 2 or 4
const BIAS: bool = true;             // a linear map has a bias
const RESIDUAL: bool = true;         // its outputs are added to what is there
const WIDTH: u32 = 40u;              // values of a row
const VOCABULARY: u32 = 24u;         // rows of the table
const EPSILON: f32 = 1e-5;           // epsilon under the root of a norm
