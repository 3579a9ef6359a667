//! Settings and tensors that a model cannot be computed with in single precision.

use super::config::{Mamba2Config, MixerConfig, ModelConfig};
use super::tensors::{MixerTensors, ModelTensors};
use super::weights::Names;
use crate::error::{Error, Result};
use crate::nn::activation::softplus;

/// The greatest Δ that Mamba-2's bias alone may make, 2⁶⁰: Δ multiplies the values, and the square of what it
/// multiplies has to stay in single precision.
const MOST_STEP: f32 = (1u64 << 60) as f32;

impl ModelConfig {
    /// Refuses an ε of the norms that is negative or not finite.
    ///
    /// # Errors
    /// An input error that names it.
    pub fn check(&self) -> Result<()> {
        if self.norm_epsilon >= 0.0 && self.norm_epsilon.is_finite() {
            return Ok(());
        }
        let expected = "at least 0 and finite";
        Err(Error::input(
            "model",
            "norm_epsilon",
            expected,
            self.norm_epsilon,
        ))
    }

    /// Refuses the values of the tensor `name`, Δ's bias of a mixer, if Δ would leave single precision's range with
    /// them: only Mamba-2 multiplies anything by Δ.
    ///
    /// # Errors
    /// An input error that names the tensor and the value.
    pub fn check_step_bias(&self, name: &str, bias: &[f32]) -> Result<()> {
        let MixerConfig::Mamba2(Mamba2Config { dt_limit, .. }) = &self.mixer else {
            return Ok(());
        };
        let [least, most] = *dt_limit;
        let beyond = |bias: &f32| softplus(*bias).max(least).min(most) > MOST_STEP;
        let Some(at) = bias.iter().position(beyond) else {
            return Ok(());
        };
        let expected = format!("at most {MOST_STEP:e}, for Δ multiplies values in f32");
        let got = format!("{:e} at index {at}", bias[at]);
        Err(Error::input(
            "load",
            format!("tensor {name}"),
            expected,
            got,
        ))
    }

    /// Refuses tensors of this model that it cannot be computed with.
    ///
    /// # Errors
    /// Those of [`ModelConfig::check_step_bias`].
    pub fn check_tensors(&self, tensors: &ModelTensors<Vec<f32>>) -> Result<()> {
        let names = ModelTensors::load(self, &mut Names)?;
        for (names, tensors) in names.blocks.iter().zip(&tensors.blocks) {
            if let (MixerTensors::Mamba2(names), MixerTensors::Mamba2(tensors)) =
                (&names.mixer, &tensors.mixer)
            {
                self.check_step_bias(&names.dt_bias.name, &tensors.dt_bias)?;
            }
        }
        Ok(())
    }
}
