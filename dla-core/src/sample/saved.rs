//! A sampler as bytes, so that a saved sequence continues with the same picks.

use oorandom::Rand64;

use super::{Sampler, SamplerOptions};
use crate::bytes::{Bytes, seal};
use crate::error::Result;

/// The first bytes of a saved sampler.
const MAGIC: [u8; 4] = *b"DLAR";
/// The version of the layout that follows; 1 had no checksum.
const VERSION: u32 = 2;

impl Sampler {
    /// The sampler as bytes, all numbers little-endian: `"DLAR"`, version u32; temperature, top_p,
    /// min_p, repetition_penalty f32; top_k, repetition_window, seed u64; the generator's state and
    /// increment u128; the count u64 of tokens in the penalty's window, and those u32; the checksum of
    /// all that ([`seal`]).
    pub fn save(&self) -> Vec<u8> {
        let options = &self.options;
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        for option in [
            options.temperature,
            options.top_p,
            options.min_p,
            options.repetition_penalty,
        ] {
            bytes.extend(option.to_le_bytes());
        }
        let sizes = [options.top_k as u64, options.repetition_window as u64];
        for word in [sizes[0], sizes[1], options.seed] {
            bytes.extend(word.to_le_bytes());
        }
        let (state, increment) = self.random.state();
        bytes.extend(state.to_le_bytes());
        bytes.extend(increment.to_le_bytes());
        bytes.extend((self.window.len() as u64).to_le_bytes());
        bytes.extend(self.window.iter().flat_map(|id| id.to_le_bytes()));
        seal(bytes)
    }

    /// A saved sampler, options and all.
    ///
    /// # Errors
    /// A file error for bytes that [`Sampler::save`] does not write.
    pub fn load(bytes: &[u8]) -> Result<Self> {
        let mut reader = Bytes::sealed("sampler", bytes, &MAGIC, VERSION)?;
        let options = read_options(&mut reader)?;
        let state = u128::from_le_bytes(reader.take("state")?);
        let increment = u128::from_le_bytes(reader.take("increment")?);
        if increment % 2 == 0 {
            return Err(reader.refuse("increment", "an odd number", increment));
        }
        let count = reader.size("window")?;
        let (ids, rest) = reader.rest().as_chunks();
        let most = if options.penalises() {
            options.repetition_window
        } else {
            0
        };
        if count != ids.len() || count > most || !rest.is_empty() {
            let expected = format!("{count} tokens, at most {most}");
            return Err(reader.refuse("window", expected, ids.len()));
        }
        Ok(Self {
            options,
            random: Rand64::from_state((state, increment)),
            window: ids.iter().map(|&id| u32::from_le_bytes(id)).collect(),
        })
    }
}

fn read_options(reader: &mut Bytes<'_>) -> Result<SamplerOptions> {
    let mut number = || reader.take("options").map(f32::from_le_bytes);
    let (temperature, top_p, min_p) = (number()?, number()?, number()?);
    let options = SamplerOptions {
        temperature,
        top_p,
        min_p,
        repetition_penalty: number()?,
        top_k: reader.size("options")?,
        repetition_window: reader.size("options")?,
        seed: reader.long("options")?,
    };
    let wrong = |error| reader.refuse("options", "those of a sampler", error);
    options.check().map_err(wrong)?;
    Ok(options)
}
