//! What no batch of a model could run on a device, refused before its weights are loaded.

use dla_core::model::ModelConfig;
use dla_core::{Dims, Result};

use super::mixer::decider;
use super::sequences::Sequences;
use super::specs::{BlockSpecs, MixerSpecs};
use super::tile::TILES;
use crate::Gpu;
use crate::op::{Operator, Options};

/// Refuses a model of which the device cannot run a single sequence.
///
/// # Errors
/// [`Error::is_unsupported`](dla_core::Error::is_unsupported) that names the size.
pub(super) fn check(gpu: &Gpu, config: &ModelConfig) -> Result<()> {
    let specs = BlockSpecs::of(config);
    specs.conv.check("model")?;
    Sequences::check(gpu, config, 1)?;
    if let MixerSpecs::Attention(spec) = specs.mixer {
        return spec.check();
    }
    // The smallest pieces: a step, and several tokens at once.
    for tokens in [TILES[0], TILES[1]] {
        let dims = Dims {
            batch: 1,
            tokens,
            ..config.dims()
        };
        let settings = config.operator();
        let decider = decider(settings.schedule, false);
        Operator::planned(gpu, &dims, &settings, decider, &Options::default())?;
    }
    Ok(())
}
