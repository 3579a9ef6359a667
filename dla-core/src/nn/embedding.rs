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
        check_ids(ids, self.weight.len() / self.width)?;
        let mut x = Vec::with_capacity(ids.len() * self.width);
        for &id in ids {
            x.extend_from_slice(&self.weight[id as usize * self.width..][..self.width]);
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
}

/// Refuses an id beyond a table of `vocabulary` vectors.
///
/// # Errors
/// An input error that names the first such id and its place.
pub fn check_ids(ids: &[u32], vocabulary: usize) -> Result<()> {
    match ids.iter().position(|&id| id as usize >= vocabulary) {
        None => Ok(()),
        Some(t) => {
            let expected = format!("token ids below the vocabulary of {vocabulary}");
            let got = format!("{} at token {t}", ids[t]);
            Err(Error::input("model", "input_ids", expected, got))
        }
    }
}
