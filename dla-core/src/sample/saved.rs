//! A sampler as bytes, so that a saved sequence continues with the same picks.

use oorandom::Rand64;

use super::{Sampler, SamplerOptions};
use crate::error::{Error, Result};

/// The first bytes of a saved sampler.
const MAGIC: [u8; 4] = *b"DLAR";
/// The version of the layout that follows.
const VERSION: u32 = 1;

impl Sampler {
    /// The sampler as bytes, all numbers little-endian: `"DLAR"`, version u32; temperature, top_p,
    /// min_p, repetition_penalty f32; top_k, repetition_window, seed u64; the generator's state and
    /// increment u128; the count u64 of tokens in the penalty's window, and those u32.
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
        bytes
    }

    /// A saved sampler, options and all.
    ///
    /// # Errors
    /// A file error for bytes that [`Sampler::save`] does not write.
    pub fn load(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader(bytes);
        if reader.take::<4>()? != MAGIC {
            return Err(refused("magic", "DLAR", "other bytes"));
        }
        let version = u32::from_le_bytes(reader.take()?);
        if version != VERSION {
            return Err(refused("version", VERSION, version));
        }
        let options = read_options(&mut reader)?;
        let state = u128::from_le_bytes(reader.take()?);
        let increment = u128::from_le_bytes(reader.take()?);
        if increment % 2 == 0 {
            return Err(refused("increment", "an odd number", increment));
        }
        let count = reader.size()?;
        let (ids, rest) = reader.0.as_chunks();
        let most = if options.penalises() {
            options.repetition_window
        } else {
            0
        };
        if count != ids.len() || count > most || !rest.is_empty() {
            let expected = format!("{count} tokens, at most {most}");
            return Err(refused("window", expected, ids.len()));
        }
        Ok(Self {
            options,
            random: Rand64::from_state((state, increment)),
            window: ids.iter().map(|&id| u32::from_le_bytes(id)).collect(),
        })
    }
}

fn read_options(reader: &mut Reader<'_>) -> Result<SamplerOptions> {
    let mut number = || reader.take().map(f32::from_le_bytes);
    let (temperature, top_p, min_p) = (number()?, number()?, number()?);
    let options = SamplerOptions {
        temperature,
        top_p,
        min_p,
        repetition_penalty: number()?,
        top_k: reader.size()?,
        repetition_window: reader.size()?,
        seed: u64::from_le_bytes(reader.take()?),
    };
    let wrong = |error| refused("options", "those of a sampler", error);
    options.check().map_err(wrong)?;
    Ok(options)
}

fn refused(argument: &'static str, expected: impl ToString, got: impl ToString) -> Error {
    Error::file("sampler", argument, expected, got)
}

/// Bytes not read yet.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        match self.0.split_first_chunk() {
            Some((bytes, rest)) => {
                self.0 = rest;
                Ok(*bytes)
            }
            None => Err(refused("bytes", format!("{N} more"), self.0.len())),
        }
    }

    fn size(&mut self) -> Result<usize> {
        let size = u64::from_le_bytes(self.take()?);
        usize::try_from(size).map_err(|_| refused("sizes", "those of this platform", size))
    }
}
