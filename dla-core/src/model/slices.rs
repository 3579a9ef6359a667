//! Long inputs, cut: what a model takes through all its layers at once is bounded.

/// Tokens of a chunk of the operator.
pub const CHUNK: usize = 64;

/// Tokens of a slice: few, for a slice holds every layer's activations, and enough that reading the weights once a
/// slice costs nothing.
pub const SLICE: usize = 4 * CHUNK;

/// Cuts token ids into the slices that [`Model::run`](super::Model::run) takes one after the other.
///
/// Every slice but the last is a multiple of the unit long, and a single token is never left over: a token alone goes
/// through the recurrence, not through the chunkwise form. So calls with slices of a unit that is a multiple of
/// [`CHUNK`] give, bit for bit, what one call with all ids gives: no chunk is cut otherwise.
///
/// ```
/// use dla_core::model::{SLICE, Slices};
/// let ids = vec![0; 2 * SLICE + 1];
/// let mut slices = Slices::new(&ids, SLICE);
/// let lengths: Vec<_> = std::iter::from_fn(|| slices.take(1)).map(<[u32]>::len).collect();
/// assert_eq!(lengths, [SLICE, SLICE + 1]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Slices<'a> {
    rest: &'a [u32],
    unit: usize,
}

impl<'a> Slices<'a> {
    /// The slices of `ids`, multiples of `unit` tokens.
    pub fn new(ids: &'a [u32], unit: usize) -> Self {
        let unit = unit.max(1);
        Self { rest: ids, unit }
    }

    /// The next slice, of `units` units; none behind the last token.
    pub fn take(&mut self, units: usize) -> Option<&'a [u32]> {
        let most = self.unit.saturating_mul(units.max(1));
        let len = match self.rest.len() {
            0 => return None,
            left if left <= most.saturating_add(1) => left,
            _ => most,
        };
        let (slice, rest) = self.rest.split_at(len);
        self.rest = rest;
        Some(slice)
    }

    /// True when nothing is left.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
}
