//! What every mixer gives on the way back.

use crate::model::tensors::{DlaTensors, MixerTensors};

/// What a mixer gives on the way back.
pub(super) struct MixerGradients {
    /// By its input, `[rows, hidden]`.
    pub(super) x: Vec<f64>,
    /// By its tensors.
    pub(super) tensors: MixerTensors<Vec<f64>>,
    /// By DLA's.
    pub(super) dla: Option<DlaTensors<Vec<f64>>>,
}
