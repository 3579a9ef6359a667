//! The weights that training from scratch begins with.

use std::f64::consts::TAU;

use oorandom::Rand64;

use super::config::ModelConfig;
use super::weights::Weights;
use crate::error::{Error, Result};

/// A source of initial weights, the same on every platform for one seed.
///
/// | tensor | values |
/// |---|---|
/// | embeddings, head, projections | normal, deviation 0.02 |
/// | `out_proj`, `o_proj`, `down_proj` | normal, deviation 0.02 / √(2 · layers) |
/// | convolutions and their biases | uniform in ±1/√width |
/// | `A_log` | ln of a uniform number in 1 to 16 |
/// | `dt_bias` | softplus⁻¹ of a number in 0.001 to 0.1 whose logarithm is uniform |
/// | norms, `D` | 1 |
/// | biases of projections | 0 |
/// | τ | as given |
/// | λ | projection 0, scale 1, bias ln(e − 1): every λ is 1 |
///
/// ```
/// # use dla_core::model::{AttentionConfig, Family, MixerConfig, ModelConfig, ModelTensors, SpecialIds};
/// # let mixer = AttentionConfig { heads: 1, head_dim: 2, conv_width: 1, intermediate: 2 };
/// # let config = ModelConfig {
/// #     family: Family::Attention, hidden: 2, layers: 1, vocabulary: 3, tied: true,
/// #     norm_epsilon: 1e-6, mixer: MixerConfig::Attention(mixer), dla: None, special: SpecialIds::default(),
/// # };
/// use dla_core::model::Initial;
/// let tensors = ModelTensors::load(&config, &mut Initial::new(&config, 7, 0.6)?)?;
/// assert_eq!(tensors.norm, [1.0, 1.0]);
/// # Ok::<(), dla_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Initial {
    random: Rand64,
    tau: f32,
    layers: usize,
    conv_width: usize,
}

/// The deviation of a projection's weights.
const DEVIATION: f64 = 0.02;

impl Initial {
    /// Weights for a model of these settings, τ of every head at `tau`.
    ///
    /// # Errors
    /// For a τ that is not a number.
    pub fn new(config: &ModelConfig, seed: u64, tau: f32) -> Result<Self> {
        if tau.is_nan() {
            return Err(Error::input("init", "tau", "a number", tau));
        }
        Ok(Self {
            random: Rand64::new(seed.into()),
            tau,
            layers: config.layers,
            conv_width: config.convolutions().1,
        })
    }

    /// A value of the tensor `name`, one-dimensional if it is a `vector`.
    fn value(&mut self, name: &str, vector: bool) -> f64 {
        match name {
            "tau" => self.tau.into(),
            "lambda_bias" => (1f64.exp() - 1.0).ln(),
            "lambda_scale" | "D" => 1.0,
            "A_log" => libm::log(self.uniform(1.0, 16.0)),
            "dt_bias" => {
                let step = libm::exp(self.uniform(libm::log(1e-3), libm::log(1e-1)));
                step + libm::log(-libm::expm1(-step))
            }
            "lambda_proj.weight" => 0.0,
            _ if name.contains("conv1d.") => {
                let most = 1.0 / (self.conv_width as f64).sqrt();
                self.uniform(-most, most)
            }
            _ if name.ends_with(".bias") => 0.0,
            _ if vector => 1.0,
            "out_proj.weight" | "o_proj.weight" | "down_proj.weight" => {
                self.normal() * DEVIATION / (2.0 * self.layers as f64).sqrt()
            }
            _ => self.normal() * DEVIATION,
        }
    }

    fn uniform(&mut self, least: f64, most: f64) -> f64 {
        least + (most - least) * self.random.rand_float()
    }

    /// By Box and Muller, half of it.
    fn normal(&mut self) -> f64 {
        let (u, v) = (1.0 - self.random.rand_float(), self.random.rand_float());
        (-2.0 * libm::log(u)).sqrt() * libm::cos(TAU * v)
    }
}

impl Weights for Initial {
    type Tensor = Vec<f32>;

    fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        // The name inside its module: the last word, with the one before it for a weight or a bias.
        let words = if name.ends_with(".weight") || name.ends_with(".bias") {
            2
        } else {
            1
        };
        let start = name
            .rmatch_indices('.')
            .nth(words - 1)
            .map_or(0, |(at, _)| at + 1);
        let len = shape.iter().product();
        let mut value = || self.value(&name[start..], shape.len() == 1) as f32;
        Ok(std::iter::repeat_with(&mut value).take(len).collect())
    }
}
