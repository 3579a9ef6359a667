//! The section `compute`.

use dla_core::{Error, Result};
use serde::{Deserialize, Serialize};

/// What a step is computed in.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct ComputeSettings {
    /// What linear maps read their weights in, and the operator its arrays.
    pub precision: Precision,
    /// What the loss is multiplied by under f16.
    pub loss_scale: LossScaling,
}

/// The type that linear maps read their weights in, and the operator its arrays. All else is f32 under both.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 32 bits.
    #[default]
    F32,
    /// 16 bits; needs a device with shader-f16.
    F16,
}

/// What the loss is multiplied by before its gradient is taken.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq)]
#[serde(untagged, expecting = "expected \"dynamic\" or a positive number")]
pub enum LossScaling {
    /// A scale that follows the steps.
    Word(ScalingWord),
    /// A number.
    Fixed(f32),
}

/// The word for a scale.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum ScalingWord {
    /// It follows the steps.
    Dynamic,
}

impl Default for LossScaling {
    fn default() -> Self {
        Self::DYNAMIC
    }
}

impl LossScaling {
    /// A scale that follows the steps.
    pub const DYNAMIC: Self = Self::Word(ScalingWord::Dynamic);
}

impl ComputeSettings {
    /// Whether nothing else is said: such settings hash as those from before there were others.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the loss has a scale that follows the steps.
    pub fn is_dynamic(&self) -> bool {
        self.precision == Precision::F16 && self.loss_scale == LossScaling::DYNAMIC
    }

    /// Refuses a scale that is no positive number, or that nothing uses.
    ///
    /// # Errors
    /// For such scales.
    pub fn check(&self) -> Result<()> {
        let refused =
            |expected, got: f32| Err(Error::input("train", "compute.loss_scale", expected, got));
        match (self.loss_scale, self.precision) {
            (LossScaling::Word(_), _) => Ok(()),
            (LossScaling::Fixed(scale), Precision::F32) => {
                refused("no number, for precision is f32", scale)
            }
            (LossScaling::Fixed(scale), Precision::F16) => match is_scale(scale) {
                true => Ok(()),
                false => refused("\"dynamic\" or a positive number", scale),
            },
        }
    }
}

/// Whether gradients can be multiplied by `scale` and by one over it.
pub(crate) fn is_scale(scale: f32) -> bool {
    scale > 0.0 && scale.is_normal() && scale.recip().is_normal()
}

impl Precision {
    /// Its name in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
        }
    }
}
