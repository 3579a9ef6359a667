//! Sizes, and every index computation that could overflow.

use crate::error::{Error, Result};

/// The most states a cache may hold.
pub const MAX_CAPACITY: usize = 64;
/// The largest key width of one head.
pub const MAX_KEY_DIM: usize = 256;
/// The largest value width of one head.
pub const MAX_VALUE_DIM: usize = 512;

/// The sizes of one call of the operator.
///
/// | array | shape |
/// |---|---|
/// | `q`, `k` | `[batch, tokens, groups, key_dim]` |
/// | `v`, `o` | `[batch, tokens, heads, value_dim]` |
/// | `g`, `beta`, score, decisions | `[batch, tokens, heads]` |
/// | `lambda` | `[batch, tokens, heads, capacity]` |
/// | states | `[batch, heads, capacity, key_dim, value_dim]` |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dims {
    /// Sequences, B.
    pub batch: usize,
    /// Tokens of the longest sequence, T; may be 0.
    pub tokens: usize,
    /// Value heads, H.
    pub heads: usize,
    /// Key groups, G; head h uses group h / (H / G).
    pub groups: usize,
    /// Key width, Dk.
    pub key_dim: usize,
    /// Value width, Dv.
    pub value_dim: usize,
    /// States a cache may hold, K.
    pub capacity: usize,
}

impl Dims {
    /// Refuses sizes outside the operator's range and products that overflow `usize`.
    pub fn check(&self) -> Result<()> {
        let positive = [
            ("batch", self.batch),
            ("heads", self.heads),
            ("groups", self.groups),
        ];
        for (name, size) in positive {
            if size == 0 {
                return Err(Error::input("op", name, "at least 1", 0));
            }
        }
        if !self.heads.is_multiple_of(self.groups) {
            return Err(Error::input(
                "op",
                "heads",
                format!("a multiple of the {} key groups", self.groups),
                self.heads,
            ));
        }
        for (name, size, most) in [
            ("key_dim", self.key_dim, MAX_KEY_DIM),
            ("value_dim", self.value_dim, MAX_VALUE_DIM),
            ("capacity", self.capacity, MAX_CAPACITY),
        ] {
            if size == 0 || size > most {
                return Err(Error::input("op", name, format!("1 to {most}"), size));
            }
        }
        let widest = self.key_dim.max(self.value_dim).max(self.capacity);
        let sizes = [
            [self.batch, self.tokens, self.heads, widest, 8],
            [self.batch, self.heads, self.capacity, self.state_len(), 8],
        ];
        for factors in sizes {
            factors
                .iter()
                .try_fold(1usize, |product, &factor| product.checked_mul(factor))
                .filter(|&bytes| isize::try_from(bytes).is_ok())
                .ok_or_else(|| {
                    Error::input(
                        "op",
                        "dims",
                        "arrays that can be addressed",
                        format!("{self:?}"),
                    )
                })?;
        }
        Ok(())
    }

    /// Values of one state, Dk·Dv.
    pub fn state_len(&self) -> usize {
        self.key_dim * self.value_dim
    }

    /// Values of `q` or `k`.
    pub fn key_len(&self) -> usize {
        self.batch * self.tokens * self.groups * self.key_dim
    }

    /// Values of `v` or `o`.
    pub fn value_len(&self) -> usize {
        self.token_heads() * self.value_dim
    }

    /// Values of `g`, `beta`, scores and decisions, B·T·H.
    pub fn token_heads(&self) -> usize {
        self.batch * self.tokens * self.heads
    }

    /// Values of `lambda`.
    pub fn lambda_len(&self) -> usize {
        self.token_heads() * self.capacity
    }

    /// Caches, one for each sequence and head, B·H.
    pub fn sequences(&self) -> usize {
        self.batch * self.heads
    }

    /// Values of all states of all caches.
    pub fn states_len(&self) -> usize {
        self.sequences() * self.capacity * self.state_len()
    }

    /// The key group that head `head` reads.
    pub fn group_of(&self, head: usize) -> usize {
        head / (self.heads / self.groups)
    }

    /// Where token `t` of sequence `b`, head `h` lies in a `[B, T, H]` array.
    pub fn token_head(&self, b: usize, t: usize, h: usize) -> usize {
        (b * self.tokens + t) * self.heads + h
    }

    /// Where the key of token `t` for head `h` of sequence `b` starts in `q` or `k`.
    pub fn key_at(&self, b: usize, t: usize, h: usize) -> usize {
        ((b * self.tokens + t) * self.groups + self.group_of(h)) * self.key_dim
    }
}
