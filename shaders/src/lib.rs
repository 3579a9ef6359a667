//! The WGSL passes of Dynamic Linear Attention as text.
//!
//! A [`Pass`] is one entry point. Its source is a few files in front of each other: constants (the
//! host writes its own in place of `common/spec.wgsl`), shared functions, the pass. Bindings are
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

const SPEC: Part = part!("common/spec");
const PARAMS: Part = part!("common/params");
const SCORE_FUNCTIONS: Part = part!("common/score");
const TRACE: Part = part!("common/trace");
const DECIDE: Part = part!("common/decide");
const SLOTS: Part = part!("common/slots");
const SCALARS: Part = part!("common/scalars");
const PAIRS: Part = part!("common/pairs");
const CHAIN: Part = part!("common/chain");
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

/// One compute pass: an entry point `main` and the parts it is made of.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// The pass's name, its file's name.
    pub name: &'static str,
    /// What the device must offer beyond WebGPU's defaults.
    pub needs: Needs,
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
    ($($(#[$doc:meta])* $ident:ident = $name:literal $needs:ident [$($part:expr),*];)+) => {
        $($(#[$doc])* pub const $ident: Pass = Pass {
            name: $name,
            needs: Needs::$needs,
            parts: &[PARAMS, $($part,)* part!($name)],
        };)+
        /// Every shipped pass.
        pub const PASSES: &[Pass] = &[$($ident),+];
    };
}

passes! {
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
    /// Follows the chain of states through the chunks.
    BOUNDARY_SCAN = "boundary_scan" Nothing [SCORE_FUNCTIONS, TRACE, DECIDE, PAIRS, CHAIN];
    /// The same for the gated delta rule.
    BOUNDARY_SCAN_DELTA = "boundary_scan_delta" Nothing [SCORE_FUNCTIONS, TRANSITION_DELTA, TRACE, DECIDE, PAIRS, CHAIN];
    /// The capacity rule over scalars; writes the slot map.
    COMPACT = "compact" Nothing [SCORE_FUNCTIONS, TRACE, SCALARS, CHANGE, ORDER];
    /// The same with one subgroup a sequence.
    COMPACT_SUBGROUP = "compact_subgroup" Subgroups [SCORE_FUNCTIONS, TRACE, SCALARS];
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
    STEP = "step" Nothing [COLUMNS_4, SCORE_FUNCTIONS, TRACE, DECIDE, SCALARS, CHANGE, ORDER, ROWS, JUDGE, MOVE];
    /// The same for any width.
    STEP_ANY = "step" Nothing [COLUMNS_1, SCORE_FUNCTIONS, TRACE, DECIDE, SCALARS, CHANGE, ORDER, ROWS, JUDGE, MOVE];
    /// What one token changes, where a value's width is a multiple of four.
    STEP_DECIDE = "step_decide" Nothing [COLUMNS_4, SCORE_FUNCTIONS, TRACE, DECIDE, SCALARS, CHANGE, CHANGES, ORDER, ROWS, JUDGE];
    /// The same for any width.
    STEP_DECIDE_ANY = "step_decide" Nothing [COLUMNS_1, SCORE_FUNCTIONS, TRACE, DECIDE, SCALARS, CHANGE, CHANGES, ORDER, ROWS, JUDGE];
    /// The states through one token, where a value's width is a multiple of four.
    STEP_MOVE = "step_move" Nothing [COLUMNS_4, SCALARS, CHANGE, CHANGES, ROWS, MOVE];
    /// The same for any width.
    STEP_MOVE_ANY = "step_move" Nothing [COLUMNS_1, SCALARS, CHANGE, CHANGES, ROWS, MOVE];
    /// The read weights of the states that every chunk was entered with.
    READ_WEIGHTS = "read_weights" Nothing [SLOTS];
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
            Needs::Nothing | Needs::Subgroups => self.source(SPEC.text),
        }
    }

    /// The bindings, read from the WGSL in the order of the parts.
    pub fn bindings(&self) -> Vec<Binding> {
        let lines = self.parts.iter().flat_map(|part| part.text.lines());
        lines.filter_map(binding).collect()
    }
}

/// The default constants at sizes and a type that cooperative matrices take.
fn matrix_spec() -> String {
    let spec = SPEC.text.replace("alias io = f32;", "alias io = f16;");
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
