//! Small models of any settings with random weights: nothing round, nothing equal.

use dla_core::Result;
use dla_core::model::{
    AttentionConfig, Family, GatedDeltaConfig, Mamba2Config, MixerConfig, ModelConfig, SpecialIds,
    Weights,
};

/// Random weights that remember what was asked for.
#[derive(Debug, Default)]
pub(crate) struct RandomWeights {
    state: u64,
    pub(crate) tensors: Vec<(String, Vec<usize>, Vec<f32>)>,
}

impl RandomWeights {
    /// A number in −1 to 1.
    fn number(&mut self) -> f32 {
        self.state = self
            .state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
}

impl Weights for RandomWeights {
    type Tensor = Vec<f32>;

    fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let inputs = shape.last().copied().unwrap_or(1).max(2) as f32;
        let (offset, size) = match name {
            _ if name.ends_with("tau") => (1.2, 0.2),
            _ if name.ends_with("norm.weight") || name.ends_with("norm_f.weight") => (1.0, 0.3),
            _ if name.ends_with("conv1d.weight") => (0.0, 1.0),
            _ if shape.len() == 1 => (0.0, 0.5),
            _ => (0.0, 2.0 / inputs.sqrt()),
        };
        let len: usize = shape.iter().product();
        let values: Vec<f32> = (0..len).map(|_| offset + size * self.number()).collect();
        self.tensors
            .push((name.to_owned(), shape.to_vec(), values.clone()));
        Ok(values)
    }
}

/// A small Mamba-2 with nothing round: 6 heads of 5 in 3 groups, state 7.
pub(crate) fn mamba2() -> (ModelConfig, Mamba2Config) {
    let mixer = Mamba2Config {
        heads: 6,
        head_dim: 5,
        groups: 3,
        state: 7,
        conv_width: 4,
        conv_bias: true,
        bias: false,
        dt_limit: [0.0, f32::INFINITY],
    };
    let config = ModelConfig {
        family: Family::Mamba2,
        hidden: 15,
        layers: 2,
        vocabulary: 23,
        tied: false,
        norm_epsilon: 1e-5,
        mixer: MixerConfig::Mamba2(mixer.clone()),
        dla: None,
        special: SpecialIds::default(),
    };
    (config, mixer)
}

/// A small Gated DeltaNet: 6 value heads of 5 over 3 key heads of 7.
pub(crate) fn gated_delta() -> (ModelConfig, GatedDeltaConfig) {
    let mixer = GatedDeltaConfig {
        key_heads: 3,
        value_heads: 6,
        key_dim: 7,
        value_dim: 5,
        conv_width: 4,
        gate: true,
        negative_eigenvalues: false,
        intermediate: 20,
    };
    let config = ModelConfig {
        family: Family::GatedDeltaNet,
        mixer: MixerConfig::GatedDelta(mixer.clone()),
        norm_epsilon: 1e-6,
        ..mamba2().0
    };
    (config, mixer)
}

/// A small softmax attention: 3 heads of 5.
pub(crate) fn attention() -> ModelConfig {
    ModelConfig {
        family: Family::Attention,
        mixer: MixerConfig::Attention(AttentionConfig {
            heads: 3,
            head_dim: 5,
            conv_width: 4,
            intermediate: 20,
        }),
        ..gated_delta().0
    }
}

/// `count` token ids below 23.
pub(crate) fn ids(count: u32) -> Vec<u32> {
    (0..count).map(|t| t * t * 7 % 23).collect()
}

/// ‖got − want‖ / ‖want‖; NaN and other lengths are infinitely far.
pub(crate) fn distance(got: &[f32], want: &[f32]) -> f64 {
    if got.len() != want.len() || got.iter().any(|x| !x.is_finite()) {
        return f64::INFINITY;
    }
    let square = |x: f64| x * x;
    let pairs = got.iter().zip(want);
    let gap: f64 = pairs
        .map(|(&a, &b)| square(f64::from(a) - f64::from(b)))
        .sum();
    let size: f64 = want.iter().map(|&b| square(f64::from(b))).sum();
    (gap / size).sqrt()
}
