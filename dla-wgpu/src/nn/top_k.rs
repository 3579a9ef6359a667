//! The largest numbers of every row.

use dla_core::{Error, Result};
use dla_shaders::{Pass, TOP_K, TOP_K_BEST};

use super::constants::Constants;
use super::layer::{Layer, Rows, buffer, holds, positive, words};
use crate::{Dispatch, Gpu};

const OP: &str = "top_k";
/// The greatest k.
pub const MAX_BEST: usize = 64;
/// Candidates of a group.
const CANDIDATES: usize = 1024;

/// The k largest of each row's numbers, larger ones first, among equals smaller ids first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopK {
    /// Numbers of a row.
    pub values: usize,
    /// k, 1 to 64.
    pub best: usize,
}

/// A row's largest numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Best {
    /// Value and id; −∞ and `u32::MAX` where the row has fewer than k.
    pub entries: Vec<(f32, u32)>,
    /// How many of the row's numbers are NaN; they count as −∞.
    pub not_numbers: u32,
}

impl TopK {
    /// The constants as WGSL.
    pub fn header(&self) -> String {
        Constants::default().sizes(&[("BEST", self.best)]).header()
    }

    /// Words of a row of the result.
    pub fn row_words(&self) -> usize {
        2 * (1 + self.best)
    }

    /// Binds `values` `[rows, values]` and `best` `[rows, 1 + k]`, two words each: how many are NaN, 0; then the bits of
    /// a value and its id. [`TopK::read`] reads it.
    ///
    /// # Errors
    /// [`Error::is_input`] for sizes that do not fit, [`Error::is_device`] for what the device refuses.
    pub async fn prepare(
        &self,
        gpu: &Gpu,
        rows: usize,
        values: &wgpu::Buffer,
        best: &wgpu::Buffer,
    ) -> Result<Vec<Dispatch>> {
        positive(OP, &[("values", self.values)])?;
        if self.best == 0 || self.best > MAX_BEST {
            let expected = format!("1 to {MAX_BEST}");
            return Err(Error::input(OP, "best", expected, self.best));
        }
        holds(OP, "values", values, &[rows, self.values])?;
        holds(OP, "best", best, &[rows, self.row_words()])?;
        let mut dispatches = Vec::new();
        if rows == 0 {
            return Ok(dispatches);
        }
        let header = self.header();
        let (mut from, mut count) = (("values", values.clone()), self.values);
        loop {
            let (pass, slice) = level(from.0, self.best);
            let slices = count.div_ceil(slice);
            let target = match slices {
                1 => best.clone(),
                _ => {
                    let len = words(OP, "best", &[rows, slices, self.row_words()])?;
                    buffer(gpu, OP, len).await?
                }
            };
            let layer = Layer {
                count: count as u32,
                ..Layer::new(Rows {
                    batch: 1,
                    tokens: rows,
                })?
            };
            let buffers = [(from.0, &from.1), ("best", &target)];
            let dispatch = layer.dispatch(gpu, (pass, &header), &buffers, rows * slices);
            dispatches.push(dispatch.await?);
            if slices == 1 {
                return Ok(dispatches);
            }
            (from, count) = (("found", target), slices);
        }
    }

    /// The rows of a result, from its words.
    pub fn read(&self, words: &[u32]) -> Vec<Best> {
        let rows = words.chunks_exact(self.row_words());
        rows.map(|row| Best {
            not_numbers: row[0],
            entries: row[2..]
                .chunks_exact(2)
                .map(|entry| (f32::from_bits(entry[0]), entry[1]))
                .collect(),
        })
        .collect()
    }
}

/// The pass that reads this binding, and what a slice of it counts.
fn level(binding: &'static str, best: usize) -> (&'static Pass, usize) {
    match binding {
        "values" => (&TOP_K, CANDIDATES),
        _ => (&TOP_K_BEST, CANDIDATES / best),
    }
}
