//! The precision of a device's steps, and the scale of their loss.

use dla_core::{Error, Result};
use dla_wgpu::{Float, Gpu};

use crate::loss_scale::LossScale;
use crate::settings::{ComputeSettings, LossScaling, Precision, is_scale};

/// What the loss of a step is multiplied by.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scaling {
    /// Nothing, in f32.
    Single,
    /// A number.
    Fixed(f32),
    /// What follows the steps.
    Dynamic(LossScale),
}

impl Scaling {
    /// As the settings say.
    ///
    /// # Errors
    /// For a scale that is no positive number, and for f16 on a device without it.
    pub(super) fn new(gpu: &Gpu, compute: &ComputeSettings) -> Result<Self> {
        compute.check()?;
        if compute.precision == Precision::F16 && !gpu.variant().f16 {
            let expected = "f32 on this device";
            let error = Error::unsupported("train", "compute.precision", expected, "f16");
            return Err(error.advise("the device lacks shader-f16; train with precision = \"f32\""));
        }
        Ok(match (compute.precision, compute.loss_scale) {
            (Precision::F32, _) => Self::Single,
            (Precision::F16, LossScaling::Fixed(scale)) => Self::Fixed(scale),
            (Precision::F16, LossScaling::Word(_)) => Self::Dynamic(LossScale::default()),
        })
    }

    pub(super) fn precision(&self) -> Precision {
        match self {
            Self::Single => Precision::F32,
            Self::Fixed(_) | Self::Dynamic(_) => Precision::F16,
        }
    }

    /// The element type of the operator's arrays.
    pub(super) fn float(&self) -> Float {
        match self.precision() {
            Precision::F32 => Float::F32,
            Precision::F16 => Float::F16,
        }
    }

    /// What the next step's loss is multiplied by.
    pub(super) fn scale(&self) -> f32 {
        match self {
            Self::Single => 1.0,
            Self::Fixed(scale) | Self::Dynamic(LossScale { scale, .. }) => *scale,
        }
    }

    /// Goes on after a step; gives what its loss was multiplied by, under f16.
    pub(super) fn followed(&mut self, skipped: bool) -> Option<f32> {
        let scale = self.scale();
        if let Self::Dynamic(state) = self {
            *state = state.after(skipped);
        }
        (self.precision() == Precision::F16).then_some(scale)
    }

    /// What a checkpoint holds of it.
    pub(super) fn state(&self) -> Option<LossScale> {
        match self {
            Self::Dynamic(state) => Some(*state),
            Self::Single | Self::Fixed(_) => None,
        }
    }

    /// Goes on from a checkpoint's.
    ///
    /// # Errors
    /// For a scale that is no positive number.
    pub(super) fn restore(&mut self, saved: Option<LossScale>) -> Result<()> {
        let Self::Dynamic(state) = self else {
            return Ok(());
        };
        let saved = saved.unwrap_or_default();
        if !is_scale(saved.scale) {
            let expected = "a positive number";
            return Err(Error::input("train", "loss_scale", expected, saved.scale));
        }
        *state = saved;
        Ok(())
    }
}
