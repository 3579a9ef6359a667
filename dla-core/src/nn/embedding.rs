//! Token ids to vectors.

use crate::error::{Error, Result};

/// A table of one vector for each token id.
///
/// ```
/// let table = dla_core::nn::Embedding::new(2, vec![0.0, 1.0, 2.0, 3.0]);
/// assert_eq!(table.forward(&[1, 0])?, [2.0, 3.0, 0.0, 1.0]);
/// assert!(table.forward(&[2]).is_err());
/// # Ok::<(), dla_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Embedding {
    width: usize,
    weight: Vec<f32>,
}

impl Embedding {
    /// A table `[vocabulary, width]`.
    pub fn new(width: usize, weight: Vec<f32>) -> Self {
        Self { width, weight }
    }

    /// The vectors of `ids`, `[ids, width]`.
    ///
    /// # Errors
    /// For an id beyond the table.
    pub fn forward(&self, ids: &[u32]) -> Result<Vec<f32>> {
        let mut x = Vec::with_capacity(ids.len() * self.width);
        for (t, &id) in ids.iter().enumerate() {
            let start = (id as usize).checked_mul(self.width);
            let rest = start.and_then(|start| self.weight.get(start..));
            let row = rest.and_then(|rest| rest.get(..self.width));
            x.extend_from_slice(row.ok_or_else(|| self.unknown(id, t))?);
        }
        Ok(x)
    }

    /// The table `[vocabulary, width]`.
    pub fn weight(&self) -> &[f32] {
        &self.weight
    }

    /// Values of a vector.
    pub fn width(&self) -> usize {
        self.width
    }

    fn unknown(&self, id: u32, t: usize) -> Error {
        let vocabulary = self.weight.len() / self.width;
        let expected = format!("token ids below the vocabulary of {vocabulary}");
        Error::input("model", "input_ids", expected, format!("{id} at token {t}"))
    }
}
