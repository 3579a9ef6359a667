//! How a call of the operator is to be run.

use dla_core::{Config, Dims, MergeCost};

use crate::Gpu;
use crate::plan::{Limits, MAX_CHUNK_VALUES, MAX_LOOP_ITERATIONS};
use crate::spec::Float;

/// How tokens are taken through the states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Path {
    /// One by one where there is only one, where merge costs need the matrices (ward) or where values are wider than
    /// [`MAX_CHUNK_VALUES`]; else in chunks.
    #[default]
    Auto,
    /// In chunks: matrix products.
    Chunks,
    /// One by one.
    Steps,
}

impl Path {
    /// The passes that this call takes.
    pub(super) fn walk(self, dims: &Dims, config: &Config, decider: Decider) -> Walk {
        let weighs = weighs_matrices(config, decider);
        match self {
            Self::Chunks => Walk::Chunks,
            Self::Auto if dims.tokens != 1 && !weighs && dims.value_dim <= MAX_CHUNK_VALUES => {
                Walk::Chunks
            }
            _ if dims.tokens == 1 && !weighs => Walk::Step,
            _ => Walk::Steps,
        }
    }
}

/// Which passes take tokens through the states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walk {
    /// The chunk passes.
    Chunks,
    /// One pass for all tokens.
    Steps,
    /// One token in two passes: what it changes, then the states.
    Step,
}

/// Merge costs are measured from matrices, which no chunk pass holds.
pub(super) fn weighs_matrices(config: &Config, decider: Decider) -> bool {
    config.merge == MergeCost::Ward && decider == Decider::Scores
}

/// How a call is to be run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Options {
    /// Tokens of one chunk, 1 to 64; absent means 64.
    pub chunk: Option<usize>,
    /// Element type of `q`, `k`, `v`, `o` on the device.
    pub float: Float,
    /// Bytes of the largest binding to use; absent means what the device allows.
    pub max_binding: Option<u64>,
    /// Bytes that one buffer of the workspace should stay below; absent means 1 GiB.
    pub workspace: Option<u64>,
    /// How tokens are taken through the states.
    pub path: Path,
}

impl Options {
    pub(crate) fn chunk(&self) -> usize {
        self.chunk.unwrap_or(64)
    }

    pub(crate) fn limits(&self, gpu: &Gpu) -> Limits {
        let binding = gpu.max_binding();
        let max_binding = self.max_binding.map_or(binding, |bytes| bytes.min(binding));
        Limits {
            max_binding,
            workspace: self.workspace.unwrap_or(1 << 30).min(max_binding),
            iterations: match gpu.is_software() {
                true => MAX_LOOP_ITERATIONS,
                false => usize::MAX,
            },
        }
    }
}

/// Who decides where states open and merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decider {
    /// The scores, against τ.
    Scores,
    /// The events already in `trace`; scores are measured along the way if `measure`.
    Given {
        /// Measure scores under the given decisions.
        measure: bool,
    },
}
