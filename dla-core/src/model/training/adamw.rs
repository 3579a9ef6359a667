//! AdamW: what moves the tensors.

use super::check_tensors;
use crate::error::{Error, Result};
use crate::model::config::ModelConfig;
use crate::model::tensors::ModelTensors;
use crate::model::weights::TensorName;

/// The settings of [`AdamW`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamWOptions {
    /// How much of the gradients' mean stays from step to step, β₁.
    pub beta1: f32,
    /// How much of the squares' mean stays, β₂.
    pub beta2: f32,
    /// ε beside the root.
    pub epsilon: f32,
    /// Decay of the tensors that decay, w.
    pub weight_decay: f32,
    /// The most that the norm of all gradients together may be, c; +∞ clips nothing.
    pub clip: f32,
    /// Whether the embeddings decay too, a tied head with them.
    pub decay_embeddings: bool,
}

impl Default for AdamWOptions {
    /// β₁ 0.9, β₂ 0.95, ε 1e-8, decay 0.1, clipped at 1, embeddings without decay.
    fn default() -> Self {
        Self {
            beta1: 0.9,
            beta2: 0.95,
            epsilon: 1e-8,
            weight_decay: 0.1,
            clip: 1.0,
            decay_embeddings: false,
        }
    }
}

impl AdamWOptions {
    /// Refuses settings outside their ranges.
    ///
    /// # Errors
    /// An input error that names the setting.
    pub fn check(&self) -> Result<()> {
        let below_one = |x: f32| (0.0..1.0).contains(&x);
        let finite = |x: f32| x.is_finite() && x >= 0.0;
        let checks = [
            ("beta1", self.beta1, below_one(self.beta1), "0 to below 1"),
            ("beta2", self.beta2, below_one(self.beta2), "0 to below 1"),
            (
                "epsilon",
                self.epsilon,
                self.epsilon > 0.0 && finite(self.epsilon),
                "above 0",
            ),
            (
                "weight_decay",
                self.weight_decay,
                finite(self.weight_decay),
                "at least 0",
            ),
            ("clip", self.clip, self.clip > 0.0, "above 0"),
        ];
        for (name, value, fits, expected) in checks {
            if !fits {
                return Err(Error::input("AdamW", name, expected, value));
            }
        }
        Ok(())
    }

    /// Which tensors decay: matrices and convolutions, but not norms, biases, `A_log`, `dt_bias`,
    /// `D`, τ, nor the scale and the bias of λ.
    pub fn decays(&self, config: &ModelConfig) -> Result<ModelTensors<bool>> {
        let names = ModelTensors::<TensorName>::names(config)?;
        let mut decays =
            names.map(|tensor| tensor.shape.len() > 1 && tensor.name.ends_with(".weight"));
        decays.embeddings = self.decay_embeddings;
        Ok(decays)
    }
}

/// Adam with decoupled weight decay (arXiv 1711.05101), its means in f32.
///
/// Step t, counted from 1, moves every tensor x with the gradient g at the rate r, in f32 but for
/// n, s and the two corrections 1 − βᵗ, which are taken in f64 and rounded:
///
/// ```text
/// n = ‖g‖ over all tensors         s = c / n if n > c, else 1
/// m ← β₁ m + (1 − β₁) (s g)        v ← β₂ v + (1 − β₂) (s g)²
/// x ← x − (r w) x                  where x decays
/// x ← x − r (m / (1 − β₁ᵗ)) / (√(v / (1 − β₂ᵗ)) + ε)
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct AdamW {
    options: AdamWOptions,
    decays: ModelTensors<bool>,
    step: u64,
    mean: ModelTensors<Vec<f32>>,
    square: ModelTensors<Vec<f32>>,
}

/// The numbers that all values of a tensor share in one step.
struct Move {
    options: AdamWOptions,
    /// s.
    scale: f32,
    /// r.
    rate: f32,
    /// r w, or 0.
    decay: f32,
    /// 1 − β₁ᵗ and 1 − β₂ᵗ.
    corrections: [f32; 2],
}

impl AdamW {
    /// Before the first step of a model of these settings.
    ///
    /// # Errors
    /// Those of [`AdamWOptions::check`].
    pub fn new(config: &ModelConfig, options: AdamWOptions) -> Result<Self> {
        let names = ModelTensors::<TensorName>::names(config)?;
        let zeros = names.map(|name| vec![0.0; name.len()]);
        Self::restore(config, options, 0, [zeros.clone(), zeros])
    }

    /// After `step` steps, with the means of gradients and of their squares that they left.
    ///
    /// # Errors
    /// Those of [`AdamWOptions::check`], and means of another model.
    pub fn restore(
        config: &ModelConfig,
        options: AdamWOptions,
        step: u64,
        [mean, square]: [ModelTensors<Vec<f32>>; 2],
    ) -> Result<Self> {
        options.check()?;
        check_tensors(config, &mean)?;
        check_tensors(config, &square)?;
        Ok(Self {
            options,
            decays: options.decays(config)?,
            step,
            mean,
            square,
        })
    }

    /// Steps done.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// The means of gradients and of their squares, m and v.
    pub fn means(&self) -> [&ModelTensors<Vec<f32>>; 2] {
        [&self.mean, &self.square]
    }

    /// Moves `tensors` against `gradients` at the rate `rate`; gives the gradients' norm before clipping.
    ///
    /// # Errors
    /// For tensors or gradients of another model, and gradients whose norm is not finite; nothing
    /// has moved then.
    pub fn update(
        &mut self,
        tensors: &mut ModelTensors<Vec<f32>>,
        gradients: &ModelTensors<Vec<f32>>,
        rate: f64,
    ) -> Result<f64> {
        let norm = global_norm(gradients);
        if !norm.is_finite() {
            let expected = "a finite norm";
            return Err(Error::input("AdamW", "gradients", expected, norm));
        }
        let means = self.mean.each_mut().zip(self.square.each_mut())?;
        let pairs = tensors.each_mut().zip(gradients.each_ref())?;
        let all = pairs.zip(means)?.zip(self.decays.each_ref())?;
        for (((x, g), (m, _)), _) in &all {
            if x.len() != m.len() || g.len() != m.len() {
                let got = format!("{} and {}", x.len(), g.len());
                let expected = format!("tensors and gradients of {} values", m.len());
                return Err(Error::input("AdamW", "tensors", expected, got));
            }
        }
        self.step += 1;
        let clip = f64::from(self.options.clip);
        let correction = |beta: f32| (1.0 - f64::from(beta).powf(self.step as f64)) as f32;
        let shared = Move {
            options: self.options,
            scale: if norm > clip {
                (clip / norm) as f32
            } else {
                1.0
            },
            rate: rate as f32,
            decay: 0.0,
            corrections: [self.options.beta1, self.options.beta2].map(correction),
        };
        for (((x, g), (m, v)), &decays) in all {
            let decay = match decays {
                true => (rate * f64::from(self.options.weight_decay)) as f32,
                false => 0.0,
            };
            Move { decay, ..shared }.apply(x, g, m, v);
        }
        Ok(norm)
    }
}

impl Move {
    fn apply(&self, x: &mut [f32], g: &[f32], m: &mut [f32], v: &mut [f32]) {
        let AdamWOptions {
            beta1,
            beta2,
            epsilon,
            ..
        } = self.options;
        for i in 0..x.len() {
            let g = self.scale * g[i];
            m[i] = beta1 * m[i] + (1.0 - beta1) * g;
            v[i] = beta2 * v[i] + (1.0 - beta2) * g * g;
            let [mean, square] = [m[i] / self.corrections[0], v[i] / self.corrections[1]];
            // A threshold of +∞ does not decay: 0 · ∞ is no number.
            if self.decay != 0.0 {
                x[i] -= self.decay * x[i];
            }
            x[i] -= self.rate * mean / (square.sqrt() + epsilon);
        }
    }
}

/// ‖g‖ over all tensors, summed in f64.
pub fn global_norm(gradients: &ModelTensors<Vec<f32>>) -> f64 {
    let squares = gradients.iter().flatten().map(|&g| f64::from(g).powi(2));
    squares.sum::<f64>().sqrt()
}
