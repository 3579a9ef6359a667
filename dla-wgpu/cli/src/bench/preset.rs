//! Models of known sizes with random weights, for timings without files.

use dla_core::model::{
    DlaConfig, Family, GatedDeltaConfig, Mamba2Config, MixerConfig, ModelConfig, SpecialIds,
    Weights,
};
use dla_core::{Config, Result};

use super::Noise;
use crate::args::Preset;

/// The settings of a preset with caches of `capacity` states.
pub(super) fn config(preset: Preset, capacity: usize) -> ModelConfig {
    let mut config = match preset {
        Preset::Mamba2Of130M => mamba2(768, 24),
        Preset::Mamba2Of780M => mamba2(1536, 48),
        Preset::GatedDeltaOf340M => gated_delta(),
    };
    if capacity > 1 {
        config.dla = Some(DlaConfig {
            capacity,
            operator: Config::new(config.backbone()),
        });
    }
    config
}

fn mamba2(hidden: usize, layers: usize) -> ModelConfig {
    ModelConfig {
        family: Family::Mamba2,
        hidden,
        layers,
        vocabulary: 50_288,
        tied: true,
        norm_epsilon: 1e-5,
        mixer: MixerConfig::Mamba2(Mamba2Config {
            heads: hidden / 32,
            head_dim: 64,
            groups: 1,
            state: 128,
            conv_width: 4,
            conv_bias: true,
            bias: false,
            dt_limit: [0.0, f32::INFINITY],
        }),
        dla: None,
        special: SpecialIds::default(),
    }
}

fn gated_delta() -> ModelConfig {
    ModelConfig {
        family: Family::GatedDeltaNet,
        hidden: 1024,
        layers: 24,
        vocabulary: 32_000,
        tied: false,
        norm_epsilon: 1e-6,
        mixer: MixerConfig::GatedDelta(GatedDeltaConfig {
            key_heads: 8,
            value_heads: 8,
            key_dim: 128,
            value_dim: 128,
            conv_width: 4,
            gate: true,
            negative_eigenvalues: false,
            intermediate: 2816,
        }),
        dla: None,
        special: SpecialIds::default(),
    }
}

/// Random weights of sensible sizes: a block of numbers, over and over.
pub(super) struct RandomWeights {
    block: Vec<f32>,
}

impl RandomWeights {
    pub(super) fn new() -> Self {
        let mut noise = Noise(1);
        Self {
            block: (0..65_521).map(|_| noise.next()).collect(),
        }
    }
}

impl Weights for RandomWeights {
    type Tensor = Vec<f32>;

    fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let inputs = shape.last().copied().unwrap_or(1).max(1) as f32;
        let (centre, size) = match name {
            _ if name.ends_with("tau") => (0.6, 0.0),
            _ if name.ends_with("norm.weight") || name.ends_with("norm_f.weight") => (1.0, 0.0),
            _ if name.ends_with("lambda_bias") || name.ends_with("lambda_scale") => (0.5, 0.0),
            _ if name.ends_with("dt_bias") => (-4.0, 0.5),
            _ if shape.len() == 1 => (0.0, 0.5),
            _ => (0.0, inputs.sqrt().recip()),
        };
        let count = shape.iter().product();
        let numbers = self.block.iter().cycle().take(count);
        Ok(numbers.map(|x| centre + size * x).collect())
    }
}
