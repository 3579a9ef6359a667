//! The WGSL passes of Dynamic Linear Attention as text.
//!
//! A [`Pass`] is one entry point. Its source is a few files in front of each other: constants (the
//! host writes its own in place of `common/spec.wgsl` or `common/spec_layer.wgsl`), shared functions, the pass. Bindings are
//! stated once, in the WGSL, and read from there by [`Pass::bindings`].
//!
//! ```
//! use dla_shaders::{Access, SCORE};
//! let bindings = SCORE.bindings();
//! assert_eq!(bindings[3].name, "k");
//! assert_eq!(bindings[3].access, Access::Read);
//! ```

#![forbid(unsafe_code)]

/// A named piece of WGSL.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The file's path below `wgsl/`, without its ending.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
}

macro_rules! part {
    ($name:literal) => {
        Part {
            name: $name,
            text: include_str!(concat!("../wgsl/", $name, ".wgsl")),
        }
    };
}

const SCORE_FUNCTIONS: Part = part!("common/score");
const TRACE: Part = part!("common/trace");
const DECIDE: Part = part!("common/decide");
const SLOTS: Part = part!("common/slots");
const SCALARS: Part = part!("common/scalars");
const COST: Part = part!("common/cost");
const PAIRS: Part = part!("common/pairs");
const CHAIN: Part = part!("common/chain");
const MEASURE_OPEN: Part = part!("common/measure_open");
const TILE: Part = part!("common/tile");
const LEFT: Part = part!("common/left");
const TRANSITION_DELTA: Part = part!("common/transition_delta");
const QUERY_DECAY: Part = part!("common/query_decay");
const QUERY_DELTA: Part = part!("common/query_delta");
const QUERY_DECAY_MATRIX: Part = part!("common/query_decay_matrix");
const QUERY_DELTA_MATRIX: Part = part!("common/query_delta_matrix");
const MIX_DECAY: Part = part!("common/mix_decay");
const MIX_DELTA: Part = part!("common/mix_delta");
const CHANGE: Part = part!("common/change");
const CHANGES: Part = part!("common/changes");
const ORDER: Part = part!("common/order");
const ROWS: Part = part!("common/rows");
const JUDGE: Part = part!("common/judge");
const MOVE: Part = part!("common/move");
const COLUMNS_4: Part = part!("common/columns4");
const COLUMNS_1: Part = part!("common/columns1");
const BLOCK: Part = part!("common/block");
const PARTIALS: Part = part!("common/partials");
const DOTS: Part = part!("common/dots");
const TOKEN_DOTS: Part = part!("common/token_dots");
const NEAR_ONE: Part = part!("common/near_one");
const NEAR_THREE: Part = part!("common/near_three");
const FINAL_STATE: Part = part!("common/final_state");
const WRITTEN_DECAY: Part = part!("common/written_decay");
const WRITTEN_DELTA: Part = part!("common/written_delta");
const ENTERED_DECAY: Part = part!("common/entered_decay");
const ENTERED_DELTA: Part = part!("common/entered_delta");
const CARRIED_DECAY: Part = part!("common/carried_decay");
const CARRIED_DELTA: Part = part!("common/carried_delta");
const OUTER: Part = part!("common/outer");
const SOLVE_GRADIENTS: Part = part!("common/solve_gradients");
const MIX_GRADIENTS: Part = part!("common/mix_gradients");
const LENGTHS: Part = part!("common/lengths");
const WEIGHTS_F32: Part = part!("common/weights_f32");
const WEIGHTS_F16: Part = part!("common/weights_f16");
const WEIGHTS_I8: Part = part!("common/weights_i8");
const ACTIVATION: Part = part!("common/activation");
const DECAY: Part = part!("common/decay");
const NORM: Part = part!("common/norm");
const GROUP_SUM: Part = part!("common/group_sum");
const FOURS: Part = part!("common/fours");
const INPUT_PLAIN: Part = part!("common/input_plain");
const INPUT_GATED: Part = part!("common/input_gated");
const INPUT_NORMED: Part = part!("common/input_normed");
const POSITIONS: Part = part!("common/positions");
const READ_WEIGHTS: Part = part!("common/read_weights");
const CANDIDATES: Part = part!("common/candidates");
const CANDIDATES_VALUES: Part = part!("common/candidates_values");
const CANDIDATES_BEST: Part = part!("common/candidates_best");
const OUTPUTS: Part = part!("common/outputs");
const SLOPES: Part = part!("common/slopes");
const STEP_NUMBERS: Part = part!("common/step");
const ATTENTION_TILES: Part = part!("common/attention");
const ATTENTION_OWN: Part = part!("common/attention_own");
const ATTENTION_KEPT: Part = part!("common/attention_kept");
const KEPT: Part = part!("common/kept");
const RANGES: Part = part!("common/ranges");
const GROUP_MAX: Part = part!("common/group_max");
const ATTENTION_GRADIENTS: Part = part!("common/attention_gradient");

/// What the passes of one family begin with.
#[derive(Clone, Copy, Debug)]
struct Family {
    /// The constants under which they parse alone.
    spec: Part,
    /// Binding 0 and the functions that all of them need.
    shared: Part,
}

/// The passes of the operator.
const OPERATOR: Family = Family {
    spec: part!("common/spec"),
    shared: part!("common/params"),
};

/// The passes of the layers around it.
const LAYERS: Family = Family {
    spec: part!("common/spec_layer"),
    shared: part!("common/layer"),
};

/// One compute pass: an entry point `main` and the parts it is made of.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// The pass's name, its file's name.
    pub name: &'static str,
    /// What the device must offer beyond WebGPU's defaults.
    pub needs: Needs,
    family: Family,
    parts: &'static [Part],
}

/// What a variant of a pass needs of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Needs {
    /// Nothing: WebGPU's default limits and no feature.
    Nothing,
    /// Subgroup operations.
    Subgroups,
    /// 16 × 16 × 16 cooperative matrices of f16 with f32 sums.
    Matrix,
}

macro_rules! passes {
    ($([$family:ident] $($(#[$doc:meta])* $ident:ident = $name:literal $needs:ident [$($part:expr),*];)+)+) => {
        $($($(#[$doc])* pub const $ident: Pass = Pass {
            name: $name,
            needs: Needs::$needs,
            family: $family,
            parts: &[$family.shared, $($part,)* part!($name)],
        };)+)+
        /// Every shipped pass.
        pub const PASSES: &[Pass] = &[$($($ident),+),+];
    };
}

passes! {
    [OPERATOR]
    /// Running log decay inside every chunk.
    CHUNK_DECAY = "chunk_decay" Nothing [];
    /// The gated delta rule's mixing inside every chunk.
    DELTA_WY = "delta_wy" Nothing [TILE, PAIRS];
    /// What queries read under the gated delta rule.
    DELTA_READ = "delta_read" Nothing [TILE, LEFT];
    /// What keys read under the gated delta rule.
    DELTA_PROBE = "delta_probe" Nothing [TILE, LEFT];
    /// Scores for every place a state could begin in a chunk.
    SCORE = "score" Nothing [SCORE_FUNCTIONS, TRACE, DECIDE, PAIRS];
    /// The same for the gated delta rule.
    SCORE_DELTA = "score_delta" Nothing [SCORE_FUNCTIONS, TRANSITION_DELTA, TRACE, DECIDE, PAIRS, TILE];
    /// Copies the newest states to where the scan carries them on.
    OPEN_STATE = "open_state" Nothing [SCALARS];
    /// Copies the open states that the scan of the gated delta rule measured back to the cache.
    CLOSE_STATE = "close_state" Nothing [SCALARS];
    /// Follows the chain of states through the chunks.
    BOUNDARY_SCAN = "boundary_scan" Nothing [SCORE_FUNCTIONS, TRACE, DECIDE, PAIRS, CHAIN, MEASURE_OPEN];
    /// The same for the gated delta rule.
    BOUNDARY_SCAN_DELTA = "boundary_scan_delta" Nothing [SCORE_FUNCTIONS, TRANSITION_DELTA, TRACE, DECIDE, PAIRS, CHAIN, MEASURE_OPEN];
    /// The capacity rule over scalars; writes the slot map.
    COMPACT = "compact" Nothing [SCORE_FUNCTIONS, TRACE, SCALARS, CHANGE, COST, ORDER];
    /// The same with one subgroup a sequence.
    COMPACT_SUBGROUP = "compact_subgroup" Subgroups [SCORE_FUNCTIONS, TRACE, SCALARS, COST];
    /// The states at every chunk's entry, where a value's width is a multiple of four.
    CHUNK_STATE = "chunk_state" Nothing [COLUMNS_4, SLOTS];
    /// The same where a value's width is not a multiple of four.
    CHUNK_STATE_ANY = "chunk_state" Nothing [COLUMNS_1, SLOTS];
    /// The same for the gated delta rule.
    CHUNK_STATE_DELTA = "chunk_state_delta" Nothing [SLOTS];
    /// What tokens read from the states their chunk was entered with.
    READOUT = "readout" Nothing [SLOTS, QUERY_DECAY];
    /// The same for the gated delta rule.
    READOUT_DELTA = "readout" Nothing [SLOTS, QUERY_DELTA];
    /// READOUT by cooperative matrices.
    READOUT_MATRIX = "readout_matrix" Matrix [SLOTS, QUERY_DECAY_MATRIX];
    /// READOUT_DELTA by cooperative matrices.
    READOUT_DELTA_MATRIX = "readout_matrix" Matrix [SLOTS, QUERY_DELTA_MATRIX];
    /// The attention form inside a chunk.
    CHUNK_OUTPUT = "chunk_output" Nothing [SLOTS, MIX_DECAY];
    /// The same for the gated delta rule.
    CHUNK_OUTPUT_DELTA = "chunk_output" Nothing [SLOTS, MIX_DELTA];
    /// CHUNK_OUTPUT by cooperative matrices.
    CHUNK_OUTPUT_MATRIX = "chunk_output_matrix" Matrix [SCORE_FUNCTIONS, SLOTS];
    /// The recurrence token by token, where a value's width is a multiple of four.
    STEP = "step" Nothing [COLUMNS_4, SCORE_FUNCTIONS, TRACE, DECIDE, SCALARS, CHANGE, COST, ORDER, ROWS, JUDGE, MOVE];
    /// The same for any width.
    STEP_ANY = "step" Nothing [COLUMNS_1, SCORE_FUNCTIONS, TRACE, DECIDE, SCALARS, CHANGE, COST, ORDER, ROWS, JUDGE, MOVE];
    /// What one token changes, where a value's width is a multiple of four.
    STEP_DECIDE = "step_decide" Nothing [COLUMNS_4, SCORE_FUNCTIONS, TRACE, DECIDE, SCALARS, CHANGE, CHANGES, COST, ORDER, ROWS, JUDGE];
    /// The same for any width.
    STEP_DECIDE_ANY = "step_decide" Nothing [COLUMNS_1, SCORE_FUNCTIONS, TRACE, DECIDE, SCALARS, CHANGE, CHANGES, COST, ORDER, ROWS, JUDGE];
    /// The states through one token, where a value's width is a multiple of four.
    STEP_MOVE = "step_move" Nothing [COLUMNS_4, SCALARS, CHANGE, CHANGES, ROWS, MOVE];
    /// The same for any width.
    STEP_MOVE_ANY = "step_move" Nothing [COLUMNS_1, SCALARS, CHANGE, CHANGES, ROWS, MOVE];
    /// The read weights of the states that every chunk was entered with.
    READ_WEIGHTS_ENTERED = "read_weights" Nothing [SLOTS];
    /// The gradients by the states at every chunk's end, where a value's width is a multiple of four.
    STATE_GRADIENT = "state_gradient" Nothing [COLUMNS_4, SLOTS, FINAL_STATE, QUERY_DECAY, ENTERED_DECAY, OUTER];
    /// The same where a value's width is not a multiple of four.
    STATE_GRADIENT_ANY = "state_gradient" Nothing [COLUMNS_1, SLOTS, FINAL_STATE, QUERY_DECAY, ENTERED_DECAY, OUTER];
    /// What reaches entered states from the outputs that read them, under the gated delta rule.
    OUTER_GRADIENT = "outer_gradient" Nothing [COLUMNS_4, QUERY_DELTA, ENTERED_DELTA, OUTER];
    /// The same where a value's width is not a multiple of four.
    OUTER_GRADIENT_ANY = "outer_gradient" Nothing [COLUMNS_1, QUERY_DELTA, ENTERED_DELTA, OUTER];
    /// The gradients by the states at every chunk's end under the gated delta rule.
    STATE_GRADIENT_DELTA = "state_gradient_delta" Nothing [SLOTS, FINAL_STATE];
    /// What reaches queries and read weights from entered states.
    READ_GRADIENT = "read_gradient" Nothing [BLOCK, DOTS, QUERY_DECAY, ENTERED_DECAY];
    /// The same for the gated delta rule.
    READ_GRADIENT_DELTA = "read_gradient" Nothing [BLOCK, DOTS, QUERY_DELTA, ENTERED_DELTA];
    /// What reaches keys from the states that their tokens were written to.
    WRITE_GRADIENT = "write_gradient" Nothing [BLOCK, PARTIALS, DOTS, NEAR_ONE, SLOTS, FINAL_STATE, WRITTEN_DECAY];
    /// The same with what a gate's gradient needs.
    WRITE_GRADIENT_GATE = "write_gradient" Nothing [BLOCK, PARTIALS, DOTS, NEAR_THREE, SLOTS, FINAL_STATE, WRITTEN_DECAY];
    /// What reaches the writing keys of the gated delta rule from the states.
    WRITE_GRADIENT_DELTA = "write_gradient" Nothing [BLOCK, PARTIALS, DOTS, NEAR_ONE, SLOTS, FINAL_STATE, WRITTEN_DELTA];
    /// The same with what a gate's gradient needs.
    WRITE_GRADIENT_DELTA_GATE = "write_gradient" Nothing [BLOCK, PARTIALS, DOTS, NEAR_THREE, SLOTS, FINAL_STATE, WRITTEN_DELTA];
    /// The attention form inside a chunk backwards.
    MIX_GRADIENT = "mix_gradient" Nothing [BLOCK, SLOTS, MIX_GRADIENTS];
    /// The same for the gated delta rule.
    MIX_GRADIENT_DELTA = "mix_gradient_delta" Nothing [BLOCK, SLOTS, MIX_GRADIENTS];
    /// The gradients by the values.
    VALUE_GRADIENT = "value_gradient" Nothing [BLOCK, SLOTS, FINAL_STATE, MIX_GRADIENTS, WRITTEN_DECAY];
    /// The same for the gated delta rule.
    VALUE_GRADIENT_DELTA = "value_gradient" Nothing [BLOCK, SLOTS, FINAL_STATE, MIX_GRADIENTS, WRITTEN_DELTA];
    /// The gradients by queries and keys from the chunk's own scores.
    KEY_GRADIENT = "key_gradient" Nothing [BLOCK, MIX_GRADIENTS];
    /// The gradient by a chunk's product of transitions.
    TRANSITION_GRADIENT = "transition_gradient" Nothing [BLOCK, SLOTS, FINAL_STATE];
    /// The gradients by the writing and the erasing keys of the gated delta rule.
    ERASE_GRADIENT = "erase_gradient" Nothing [BLOCK];
    /// The gated delta rule's mixing backwards.
    SOLVE_GRADIENT = "solve_gradient" Nothing [BLOCK, MIX_GRADIENTS, SOLVE_GRADIENTS];
    /// The gradients by queries and keys under the gated delta rule.
    KEY_GRADIENT_DELTA = "key_gradient_delta" Nothing [BLOCK, SOLVE_GRADIENTS];
    /// What entered states bring to a chunk's end against the gradient there.
    CARRY_GRADIENT = "carry_gradient" Nothing [DOTS, NEAR_ONE, SLOTS, FINAL_STATE, CARRIED_DECAY];
    /// The same with what a gate's gradient needs.
    CARRY_GRADIENT_GATE = "carry_gradient" Nothing [DOTS, NEAR_THREE, SLOTS, FINAL_STATE, CARRIED_DECAY];
    /// The same for the gated delta rule.
    CARRY_GRADIENT_DELTA = "carry_gradient" Nothing [DOTS, NEAR_THREE, SLOTS, FINAL_STATE, CARRIED_DELTA];
    /// The gradients by the read weights.
    WEIGHT_GRADIENT = "weight_gradient" Nothing [DOTS, TOKEN_DOTS, SLOTS, MIX_GRADIENTS];
    /// The gradients by the log decays under a scalar decay.
    DECAY_GRADIENT = "decay_gradient" Nothing [DOTS, TOKEN_DOTS, SLOTS, MIX_GRADIENTS];
    /// The gradients by log decays and write strengths under the gated delta rule.
    DECAY_GRADIENT_DELTA = "decay_gradient_delta" Nothing [SOLVE_GRADIENTS];
    /// The gradients by the gate.
    GATE_GRADIENT = "gate_gradient" Nothing [DOTS, TOKEN_DOTS, TRACE, SLOTS, FINAL_STATE, MIX_GRADIENTS];
    /// Queries and keys: the sum over the heads of a group.
    GROUP_GRADIENT = "group_gradient" Nothing [];
    /// The gradient by the thresholds.
    TAU_GRADIENT = "tau_gradient" Nothing [SCORE_FUNCTIONS];

    [LAYERS]
    /// Token ids to vectors, from a table in f32.
    EMBED_F32 = "nn/embed" Nothing [LENGTHS, WEIGHTS_F32];
    /// The same from a table in f16.
    EMBED_F16 = "nn/embed" Nothing [LENGTHS, WEIGHTS_F16];
    /// The same from a table in 8-bit integers.
    EMBED_I8 = "nn/embed" Nothing [LENGTHS, WEIGHTS_I8];
    /// A linear map of few rows.
    MATVEC_F32 = "nn/matvec" Nothing [FOURS, NORM, INPUT_PLAIN, WEIGHTS_F32];
    /// The same by weights in f16.
    MATVEC_F16 = "nn/matvec" Nothing [FOURS, NORM, INPUT_PLAIN, WEIGHTS_F16];
    /// The same by weights in 8-bit integers.
    MATVEC_I8 = "nn/matvec" Nothing [FOURS, NORM, INPUT_PLAIN, WEIGHTS_I8];
    /// A linear map of few gated rows.
    MATVEC_GATED_F32 = "nn/matvec" Nothing [FOURS, NORM, ACTIVATION, INPUT_GATED, WEIGHTS_F32];
    /// The same by weights in f16.
    MATVEC_GATED_F16 = "nn/matvec" Nothing [FOURS, NORM, ACTIVATION, INPUT_GATED, WEIGHTS_F16];
    /// The same by weights in 8-bit integers.
    MATVEC_GATED_I8 = "nn/matvec" Nothing [FOURS, NORM, ACTIVATION, INPUT_GATED, WEIGHTS_I8];
    /// A linear map of few rows after their norm.
    MATVEC_NORMED_F32 = "nn/matvec" Nothing [FOURS, NORM, INPUT_NORMED, WEIGHTS_F32];
    /// The same by weights in f16.
    MATVEC_NORMED_F16 = "nn/matvec" Nothing [FOURS, NORM, INPUT_NORMED, WEIGHTS_F16];
    /// The same by weights in 8-bit integers.
    MATVEC_NORMED_I8 = "nn/matvec" Nothing [FOURS, NORM, INPUT_NORMED, WEIGHTS_I8];
    /// A linear map of many rows.
    MATMUL_F32 = "nn/matmul" Nothing [FOURS, INPUT_PLAIN, WEIGHTS_F32];
    /// The same by weights in f16.
    MATMUL_F16 = "nn/matmul" Nothing [FOURS, INPUT_PLAIN, WEIGHTS_F16];
    /// The same by weights in 8-bit integers.
    MATMUL_I8 = "nn/matmul" Nothing [FOURS, INPUT_PLAIN, WEIGHTS_I8];
    /// A linear map of many gated rows.
    MATMUL_GATED_F32 = "nn/matmul" Nothing [FOURS, ACTIVATION, INPUT_GATED, WEIGHTS_F32];
    /// The same by weights in f16.
    MATMUL_GATED_F16 = "nn/matmul" Nothing [FOURS, ACTIVATION, INPUT_GATED, WEIGHTS_F16];
    /// The same by weights in 8-bit integers.
    MATMUL_GATED_I8 = "nn/matmul" Nothing [FOURS, ACTIVATION, INPUT_GATED, WEIGHTS_I8];
    /// The root-mean-square norm of rows.
    RMS_NORM = "nn/rms_norm" Nothing [GROUP_SUM, NORM];
    /// A causal convolution of each channel by itself, then SiLU.
    CONV = "nn/conv" Nothing [LENGTHS, ACTIVATION];
    /// What a Mamba-2 mixer gives the operator.
    MAMBA2_ARRAYS = "nn/mamba2_arrays" Nothing [POSITIONS, ACTIVATION, DECAY, READ_WEIGHTS];
    /// What a Gated DeltaNet mixer gives the operator.
    DELTA_ARRAYS = "nn/delta_arrays" Nothing [POSITIONS, ACTIVATION, DECAY, READ_WEIGHTS, GROUP_SUM, NORM];
    /// A Mamba-2 mixer's skip, gate and norm.
    MAMBA2_OUTPUT = "nn/mamba2_output" Nothing [ACTIVATION, GROUP_SUM, NORM];
    /// A Gated DeltaNet mixer's norm and gate.
    DELTA_OUTPUT = "nn/delta_output" Nothing [ACTIVATION, GROUP_SUM, NORM];
    /// The largest numbers of a row's slices.
    TOP_K = "nn/top_k" Nothing [CANDIDATES, CANDIDATES_VALUES];
    /// The largest of those.
    TOP_K_BEST = "nn/top_k" Nothing [CANDIDATES, CANDIDATES_BEST];
    /// The gradient by a linear map's input.
    INPUT_GRADIENT_F32 = "nn/input_gradient" Nothing [OUTPUTS, WEIGHTS_F32];
    /// The same by weights in f16.
    INPUT_GRADIENT_F16 = "nn/input_gradient" Nothing [OUTPUTS, WEIGHTS_F16];
    /// The gradient by a linear map's weights.
    MATRIX_GRADIENT = "nn/matrix_gradient" Nothing [FOURS, OUTPUTS];
    /// The sum of parts.
    SUM_PARTS = "nn/sum_parts" Nothing [];
    /// Sums of columns, in parts.
    COLUMN_SUMS = "nn/column_sums" Nothing [];
    /// Copies columns to where they belong.
    PLACE = "nn/place" Nothing [];
    /// The root-mean-square norm backwards.
    NORM_GRADIENT = "nn/norm_gradient" Nothing [GROUP_SUM, NORM];
    /// The MLP's gate backwards.
    GATED_GRADIENT = "nn/gated_gradient" Nothing [ACTIVATION, SLOPES];
    /// The convolution's SiLU backwards.
    CONV_SLOPE = "nn/conv_slope" Nothing [LENGTHS, ACTIVATION, SLOPES];
    /// The convolution backwards.
    CONV_GRADIENT = "nn/conv_gradient" Nothing [LENGTHS];
    /// A Mamba-2 mixer's skip, gate and norm backwards.
    MAMBA2_OUTPUT_GRADIENT = "nn/mamba2_output_gradient" Nothing [ACTIVATION, SLOPES, GROUP_SUM, NORM];
    /// A Gated DeltaNet mixer's norm and gate backwards.
    DELTA_OUTPUT_GRADIENT = "nn/delta_output_gradient" Nothing [ACTIVATION, SLOPES, GROUP_SUM, NORM];
    /// The read weights backwards.
    READ_WEIGHTS_GRADIENT = "nn/read_weights_gradient" Nothing [POSITIONS, ACTIVATION, READ_WEIGHTS];
    /// What a Mamba-2 mixer gives the operator, backwards.
    MAMBA2_ARRAYS_GRADIENT = "nn/mamba2_arrays_gradient" Nothing [ACTIVATION, DECAY];
    /// What a Gated DeltaNet mixer gives the operator, backwards.
    DELTA_ARRAYS_GRADIENT = "nn/delta_arrays_gradient" Nothing [ACTIVATION, DECAY, SLOPES, GROUP_SUM, NORM];
    /// Sums of the gradients by the vectors of equal ids.
    EMBED_SUM = "nn/embed_sum" Nothing [];
    /// The gradient by the table of vectors.
    EMBED_GRADIENT = "nn/embed_gradient" Nothing [];
    /// The loss of next-token prediction and its gradient.
    CROSS_ENTROPY = "nn/cross_entropy" Nothing [GROUP_SUM];
    /// Causal softmax attention.
    ATTENTION = "nn/attention" Nothing [LENGTHS, ATTENTION_TILES, ATTENTION_OWN];
    /// The same over the keys and values of earlier tokens too.
    ATTENTION_CACHED = "nn/attention" Nothing [LENGTHS, POSITIONS, KEPT, ATTENTION_TILES, ATTENTION_KEPT];
    /// Keeps keys and values for attention over them.
    ATTENTION_KEEP = "nn/attention_keep" Nothing [LENGTHS, POSITIONS, KEPT];
    /// The attention of one token an item over ranges of the kept keys.
    ATTENTION_STEP = "nn/attention_step" Nothing [LENGTHS, POSITIONS, KEPT, GROUP_SUM, GROUP_MAX, RANGES];
    /// The attention of one token an item from its ranges.
    ATTENTION_JOIN = "nn/attention_join" Nothing [LENGTHS, POSITIONS, KEPT, GROUP_SUM, GROUP_MAX, RANGES];
    /// Inner products of attention's outputs and their gradients.
    ATTENTION_DOTS = "nn/attention_dots" Nothing [];
    /// The gradient by attention's queries.
    ATTENTION_QUERY_GRADIENT = "nn/attention_query_gradient" Nothing [LENGTHS, ATTENTION_TILES, ATTENTION_OWN, ATTENTION_GRADIENTS];
    /// The gradients by attention's keys and values.
    ATTENTION_SOURCE_GRADIENT = "nn/attention_source_gradient" Nothing [LENGTHS, ATTENTION_TILES, ATTENTION_OWN, ATTENTION_GRADIENTS];
    /// Sums of squares of a gradient.
    SQUARE_SUM = "nn/square_sum" Nothing [GROUP_SUM];
    /// The norm of all gradients together.
    GRADIENT_NORM = "nn/gradient_norm" Nothing [STEP_NUMBERS, GROUP_SUM];
    /// Adam with decoupled decay.
    ADAMW = "nn/adamw" Nothing [STEP_NUMBERS];
    /// Weights in f16 from those in f32.
    HALVE = "nn/halve" Nothing [];
    /// The decay rates of heads from their logarithms.
    DECAY_RATES = "nn/decay_rates" Nothing [ACTIVATION, DECAY];
}

/// How a pass uses a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// A uniform buffer.
    Uniform,
    /// A storage buffer that is only read.
    Read,
    /// A storage buffer that is written too.
    ReadWrite,
}

/// One `@group(0)` binding of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The number after `@binding`.
    pub number: u32,
    /// The variable's name.
    pub name: &'static str,
    /// How the pass uses it.
    pub access: Access,
}

impl Pass {
    /// The whole WGSL: `spec` (constants and the alias `io`), then the parts.
    pub fn source(&self, spec: &str) -> String {
        let enables = match self.needs {
            Needs::Matrix => "enable wgpu_cooperative_matrix;",
            Needs::Nothing | Needs::Subgroups => "",
        };
        let texts = self.parts.iter().map(|part| part.text);
        [enables, spec]
            .into_iter()
            .chain(texts)
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// The source under the default constants.
    pub fn default_source(&self) -> String {
        match self.needs {
            Needs::Matrix => self.source(&matrix_spec()),
            Needs::Nothing | Needs::Subgroups => self.source(self.family.spec.text),
        }
    }

    /// The bindings, read from the WGSL, in the order of their numbers.
    pub fn bindings(&self) -> Vec<Binding> {
        let lines = self.parts.iter().flat_map(|part| part.text.lines());
        let mut bindings: Vec<_> = lines.filter_map(binding).collect();
        bindings.sort_unstable_by_key(|binding| binding.number);
        bindings
    }
}

/// The default constants at sizes and a type that cooperative matrices take.
fn matrix_spec() -> String {
    let spec = OPERATOR
        .spec
        .text
        .replace("alias io = f32;", "alias io = f16;");
    let spec = spec.replace("const VALUE_DIM: u32 = 16u;", "const VALUE_DIM: u32 = 64u;");
    format!("enable f16;\n{spec}")
}

/// Reads `@group(0) @binding(N) var<access> name: type;`.
fn binding(line: &'static str) -> Option<Binding> {
    let rest = line.strip_prefix("@group(0) @binding(")?;
    let (number, rest) = rest.split_once(") var<")?;
    let (access, rest) = rest.split_once("> ")?;
    let (name, _) = rest.split_once(':')?;
    let access = match access {
        "uniform" => Access::Uniform,
        "storage, read" => Access::Read,
        _ => Access::ReadWrite,
    };
    Some(Binding {
        number: number.parse().ok()?,
        name,
        access,
    })
}
