//! Token ids to vectors.

use crate::error::{Error, Result};
use crate::real::Real;
use crate::vector::add_scaled;

/// A table of one vector for each token id.
///
/// ```
/// let table = dla_core::nn::Embedding::new(2, vec![0.0, 1.0, 2.0, 3.0]);
/// assert_eq!(table.forward(&[1, 0])?, [2.0, 3.0, 0.0, 1.0]);
/// assert!(table.forward(&[2]).is_err());
/// # Ok::<(), dla_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Embedding<R = f32> {
    width: usize,
    weight: Vec<R>,
}

impl<R: Real> Embedding<R> {
    /// A table `[vocabulary, width]`.
    pub fn new(width: usize, weight: Vec<R>) -> Self {
        Self { width, weight }
    }

    /// The vectors of `ids`, `[ids, width]`.
    ///
    /// # Errors
    /// For an id beyond the table.
    pub fn forward(&self, ids: &[u32]) -> Result<Vec<R>> {
        let mut x = Vec::with_capacity(ids.len() * self.width);
        for (t, &id) in ids.iter().enumerate() {
            let start = (id as usize).checked_mul(self.width);
            let rest = start.and_then(|start| self.weight.get(start..));
            let row = rest.and_then(|rest| rest.get(..self.width));
            x.extend_from_slice(row.ok_or_else(|| self.unknown(id, t))?);
        }
        Ok(x)
    }

    /// The gradient of Σ x·dx by the table `[vocabulary, width]`, x the vectors of `ids`, which
    /// [`Embedding::forward`] has accepted; rows of other ids are zeros.
    ///
    /// ```
    /// let table = dla_core::nn::Embedding::new(1, vec![5.0, 6.0, 7.0]);
    /// assert_eq!(table.backward(&[1, 0, 1], &[1.0, 2.0, 4.0]), [2.0, 5.0, 0.0]);
    /// ```
    pub fn backward(&self, ids: &[u32], d_x: &[R]) -> Vec<R> {
        let mut table = vec![R::ZERO; self.weight.len()];
        for (&id, d_x) in ids.iter().zip(d_x.chunks_exact(self.width)) {
            add_scaled(
                &mut table[id as usize * self.width..][..self.width],
                R::ONE,
                d_x,
            );
        }
        table
    }

    /// The table `[vocabulary, width]`.
    pub fn weight(&self) -> &[R] {
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
