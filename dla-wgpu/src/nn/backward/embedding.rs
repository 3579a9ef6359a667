//! Token ids to vectors, backwards.

use dla_core::{Error, Result};
use dla_shaders::{EMBED_GRADIENT, EMBED_SUM};

use super::linear::single;
use crate::nn::constants::Constants;
use crate::nn::layer::{Layer, holds};
use crate::nn::matrix::{Matrix, WeightType};
use crate::{Dispatch, Gpu};

const OP: &str = "embed_gradient";

/// The gradient by the table of an [`Embedding`](crate::nn::Embedding).
#[derive(Clone, Copy, Debug)]
pub struct EmbeddingGradient<'a> {
    /// `[vocabulary, width]`, f32, added to.
    pub d_table: &'a Matrix,
}

/// The constants of its passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmbeddingGradientSpec {
    /// Values of a vector.
    pub width: usize,
}

impl EmbeddingGradientSpec {
    /// The constants as WGSL.
    pub fn header(&self) -> String {
        let sizes = [
            ("WIDTH", self.width),
            ("WEIGHT_COLUMNS", WeightType::F32.padded(self.width)),
        ];
        Constants::default().sizes(&sizes).header()
    }
}

/// The rows of a call sorted by their ids, `[rows, 3]`: a row, and where the rows with its id begin and end. `tokens` is T,
/// `lengths` the tokens that each batch item really has; rows behind them take no part.
///
/// # Errors
/// [`Error::is_input`] for other than `lengths.len()` items of T ids, and ids beyond the vocabulary.
pub fn embedding_order(
    ids: &[u32],
    tokens: usize,
    lengths: &[u32],
    vocabulary: usize,
) -> Result<Vec<u32>> {
    if lengths.len().checked_mul(tokens) != Some(ids.len()) {
        let expected = format!("{} items of {tokens} ids", lengths.len());
        return Err(Error::input(OP, "ids", expected, ids.len()));
    }
    let real = |row: &usize| row % tokens < lengths[row / tokens] as usize;
    let mut order: Vec<usize> = (0..ids.len()).filter(real).collect();
    if let Some(&row) = order.iter().find(|&&row| ids[row] as usize >= vocabulary) {
        let expected = format!("ids below the vocabulary of {vocabulary}");
        let got = format!("{} in row {row}", ids[row]);
        return Err(Error::input(OP, "ids", expected, got));
    }
    order.sort_by_key(|&row| ids[row]);
    let mut places = Vec::with_capacity(3 * ids.len());
    for rows in order.chunk_by(|&a, &b| ids[a] == ids[b]) {
        let first = places.len() as u32 / 3;
        let end = first + rows.len() as u32;
        places.extend(rows.iter().flat_map(|&row| [row as u32, first, end]));
    }
    // A place without a row is its own end.
    let free = places.len() / 3..ids.len();
    places.extend(free.flat_map(|place| [0, place as u32, place as u32]));
    Ok(places)
}

impl EmbeddingGradient<'_> {
    /// Binds `ids` `[rows]`, their `order` `[rows, 3]` as [`embedding_order`] makes it, and `d_x` `[rows, width]`, which
    /// is used up.
    ///
    /// # Errors
    /// [`Error::is_input`] for sizes that do not fit, [`Error::is_unsupported`] for a table that is not f32,
    /// [`Error::is_device`] for what the device refuses.
    pub async fn prepare(
        &self,
        gpu: &Gpu,
        rows: usize,
        [ids, order]: [&wgpu::Buffer; 2],
        d_x: &wgpu::Buffer,
    ) -> Result<Vec<Dispatch>> {
        let width = self.d_table.columns();
        single(OP, "d_table", self.d_table)?;
        holds(OP, "ids", ids, &[rows])?;
        holds(OP, "order", order, &[rows, 3])?;
        holds(OP, "d_x", d_x, &[rows, width])?;
        if rows == 0 {
            return Ok(Vec::new());
        }
        let header = EmbeddingGradientSpec { width }.header();
        let layer = Layer {
            rows: rows as u32,
            ..Default::default()
        };
        let buffers = [("order", order), ("d_x", d_x)];
        let sums = layer.dispatch(gpu, (&EMBED_SUM, &header), &buffers, rows);
        let mut dispatches = vec![sums.await?];
        for block in self.d_table.blocks() {
            let layer = Layer {
                first: block.first as u32,
                count: block.count as u32,
                ..layer
            };
            let table = ("d_table", &block.words);
            let buffers = [("order", order), ("ids", ids), ("d_x", d_x), table];
            let dispatch = layer.dispatch(gpu, (&EMBED_GRADIENT, &header), &buffers, rows);
            dispatches.push(dispatch.await?);
        }
        Ok(dispatches)
    }
}
