//! Where a sequence is.

use dla_core::Schedule;
use dla_core::dla::schedule::Occupancy;
use dla_core::model::{LayerState, ModelConfig};

/// The tokens that a sequence has taken in, and what later decisions follow from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// Tokens taken in.
    pub(super) position: u64,
    /// Where decisions follow from positions, each head's live states, `[layers, heads]`; otherwise empty.
    pub(super) heads: Vec<Occupancy>,
}

/// Whether a model's decisions follow from positions.
pub(super) fn positional(config: &ModelConfig) -> bool {
    config.attention().is_none() && config.operator().schedule != Schedule::Dynamic
}

impl Place {
    /// Before the first token.
    pub(super) fn new(config: &ModelConfig) -> Self {
        let heads = match positional(config) {
            true => config.layers * config.dims().heads,
            false => 0,
        };
        Self {
            position: 0,
            heads: vec![Occupancy::default(); heads],
        }
    }

    /// That of a sequence with these layers after `position` tokens.
    pub(super) fn of(config: &ModelConfig, position: u64, layers: &[LayerState]) -> Self {
        let mut place = Self {
            position,
            ..Self::new(config)
        };
        let dims = config.dims();
        for (i, occupancy) in place.heads.iter_mut().enumerate() {
            let n = &layers[i / dims.heads].cache.n;
            *occupancy = Occupancy::of(&dims, Some(n), i % dims.heads);
        }
        place
    }
}
