//! The constants that specialise a pass: typed here, text in front of the WGSL.

use dla_core::{Backbone, Config, Dims, MergeCost, Norm};
use std::fmt::Write;

/// The element type of `q`, `k`, `v`, `o` and of the state versions; sums are always f32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Float {
    /// 32 bits.
    #[default]
    F32,
    /// 16 bits; needs the device's shader-f16 feature.
    F16,
}

impl Float {
    /// Bytes of one value.
    pub fn bytes(self) -> u64 {
        match self {
            Self::F32 => 4,
            Self::F16 => 2,
        }
    }
}

/// One specialisation of the passes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spec {
    /// Sizes; batch and tokens do not matter here.
    pub dims: Dims,
    /// Settings of the operator.
    pub config: Config,
    /// Tokens of one chunk.
    pub chunk: usize,
    /// Element type.
    pub float: Float,
    /// Decisions are given instead of made.
    pub replay: bool,
    /// The schedule measures scores.
    pub measure: bool,
    /// Columns of a state that one group of the step passes moves; see [`Plan::slice`](crate::plan::Plan::slice).
    pub slice: usize,
    /// The device's smallest subgroup; read by passes that use subgroups.
    pub subgroup: usize,
    /// Loops over a tile are unrolled; a software adapter compiles them for seconds and gains nothing.
    pub unroll: bool,
}

/// Workgroup memory that the cooperative-matrix passes may take, in bytes. No device is asked to run a pass that takes
/// more: nothing checks it there, and the device may be lost.
pub const MATRIX_WORKGROUP_BYTES: u32 = 48 << 10;

impl Spec {
    /// Whether the shape is one that the cooperative-matrix passes take, workgroup memory included.
    pub fn fits_matrix(&self) -> bool {
        self.float == Float::F16
            && self.chunk == 64
            && self.dims.key_dim.is_multiple_of(16)
            && self.dims.value_dim.is_multiple_of(64)
            && self.matrix_workgroup_bytes() <= MATRIX_WORKGROUP_BYTES as usize
    }

    /// Workgroup memory of `readout_matrix` or `chunk_output_matrix`, whichever takes more; the twin of their arrays.
    fn matrix_workgroup_bytes(&self) -> usize {
        let (keys, states) = (self.dims.key_dim, self.dims.capacity);
        let readout = 64 * (keys / 4 + 2) * 8 + keys * 18 * 8;
        let output = 2 * 64 * 18 * 8 + 64 * 17 * 16 + 64 * 4 + 16;
        readout.max(output) + 64 * states * 4
    }

    /// The constants as WGSL, in the place of `common/spec.wgsl`.
    pub fn header(&self) -> String {
        let mut text = String::new();
        let (alias, enable) = match self.float {
            Float::F32 => ("f32", ""),
            Float::F16 => ("f16", "enable f16;\n"),
        };
        text.push_str(enable);
        let cost = match self.config.merge {
            MergeCost::Density => 0,
            MergeCost::Ward => 1,
            MergeCost::Oldest => 2,
        };
        let sizes = [
            ("HEADS", self.dims.heads),
            ("GROUPS", self.dims.groups),
            ("KEY_DIM", self.dims.key_dim),
            ("VALUE_DIM", self.dims.value_dim),
            ("CAPACITY", self.dims.capacity),
            ("CHUNK", self.chunk),
            ("COST", cost),
            ("SLICE", self.slice),
            ("SUBGROUP", self.subgroup),
        ];
        let switches = [
            ("RMS", self.config.norm == Norm::Rms),
            ("REPLAY", self.replay),
            ("MEASURE", self.measure),
            ("DELTA", self.config.backbone == Backbone::Delta),
            ("UNROLL", self.unroll),
        ];
        // Writing to a String cannot fail.
        let _ = writeln!(text, "alias io = {alias};");
        for (name, size) in sizes {
            let _ = writeln!(text, "const {name}: u32 = {size}u;");
        }
        for (name, on) in switches {
            let _ = writeln!(text, "const {name}: bool = {on};");
        }
        let _ = writeln!(
            text,
            "const EPSILON: f32 = {:e};",
            self.config.epsilon as f32
        );
        text
    }
}
