//! The arrays of one call, and what it gives back.

use crate::cache::Cache;
use crate::check::{check_all, check_len};
use crate::config::{Backbone, Config, Schedule};
use crate::decisions::{Decisions, Trace};
use crate::dims::Dims;
use crate::dla::positions::{check_levels, check_tokens};
use crate::error::{Error, Result};
use crate::real::Real;

/// The arrays of one call, borrowed; shapes as in [`Dims`].
///
/// `q` and `k` arrive as the operator uses them: no feature map, normalisation or scaling happens inside.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a, R> {
    /// Queries `[batch, tokens, groups, key_dim]`.
    pub q: &'a [R],
    /// Keys `[batch, tokens, groups, key_dim]`.
    pub k: &'a [R],
    /// Values `[batch, tokens, heads, value_dim]`.
    pub v: &'a [R],
    /// Log decay `[batch, tokens, heads]`, at most 0 and finite; required by decay and delta, absent for plain (delta: absent means 0).
    pub g: Option<&'a [R]>,
    /// Write strength `[batch, tokens, heads]`; required by delta, absent otherwise.
    pub beta: Option<&'a [R]>,
    /// Read weights by rank (by level under Fenwick) `[batch, tokens, heads, capacity]`.
    pub lambda: &'a [R],
    /// Threshold per head `[heads]`; +∞ keeps a single state. Read by the dynamic schedule only, empty otherwise.
    pub tau: &'a [R],
    /// Tokens of each sequence `[batch]`, at most `tokens`; absent means all full.
    pub lengths: Option<&'a [u32]>,
    /// Decisions to follow instead of the schedule's own; scores are still measured under the dynamic schedule.
    pub replay: Option<&'a Decisions>,
}

/// What one call gives back.
#[derive(Clone, Debug, PartialEq)]
pub struct Output<R> {
    /// `[batch, tokens, heads, value_dim]`; zeros beyond a shorter item's length.
    pub o: Vec<R>,
    /// What was measured and decided.
    pub trace: Trace,
    /// The states after the last token.
    pub cache: Cache<R>,
}

impl<R: Real> Inputs<'_, R> {
    /// Tokens of sequence `b`.
    pub fn length(&self, dims: &Dims, b: usize) -> usize {
        self.lengths
            .map_or(dims.tokens, |lengths| lengths[b] as usize)
    }

    /// Refuses whatever the operator cannot compute with.
    ///
    /// Values of `q`, `k`, `v` and `beta` may be infinite or NaN: they reach the output, and a score
    /// that they make non-finite opens no state.
    ///
    /// # Errors
    /// An input error that names the argument as a case file does: sizes outside [`Dims::check`], an
    /// array of the wrong length, missing or out of place, `g` positive or not finite, `tau` or
    /// `lambda` NaN, `lengths` beyond the tokens, too few Fenwick levels, a cache that no run could
    /// have left, a replay that no run could have made.
    pub fn check(&self, dims: &Dims, config: &Config, cache: Option<&Cache<R>>) -> Result<()> {
        dims.check()?;
        config.check()?;
        self.check_sizes(dims, config)?;
        self.check_values(dims)?;
        if let Some(cache) = cache {
            cache.check(dims, config.schedule)?;
        }
        self.check_positions(dims, config, cache)?;
        if let Some(replay) = self.replay {
            let n = cache.map(|cache| &cache.n[..]);
            replay.check(dims, config, self.lengths, n)?;
        }
        Ok(())
    }

    fn check_sizes(&self, dims: &Dims, config: &Config) -> Result<()> {
        let gates = dims.token_heads();
        check_len("q", self.q.len(), dims.key_len())?;
        check_len("k", self.k.len(), dims.key_len())?;
        check_len("v", self.v.len(), dims.value_len())?;
        check_len("lambda", self.lambda.len(), dims.lambda_len())?;
        check_gate(
            "g",
            self.g,
            gates,
            config.backbone,
            &[Backbone::Decay],
            &[Backbone::Plain],
        )?;
        let others = [Backbone::Plain, Backbone::Decay];
        check_gate(
            "beta",
            self.beta,
            gates,
            config.backbone,
            &[Backbone::Delta],
            &others,
        )?;
        let thresholds = match config.schedule {
            Schedule::Dynamic => dims.heads,
            _ => 0,
        };
        check_len("tau", self.tau.len(), thresholds)?;
        self.lengths.map_or(Ok(()), |lengths| {
            check_len("lengths", lengths.len(), dims.batch)
        })
    }

    fn check_values(&self, dims: &Dims) -> Result<()> {
        let decays = |g: &R| g.is_finite() && *g <= R::ZERO;
        let number = |x: &R| !x.is_nan();
        check_all(
            "g",
            self.g.unwrap_or_default(),
            "finite and at most 0",
            decays,
        )?;
        check_all("tau", self.tau, "a number", number)?;
        check_all("lambda", self.lambda, "a number", number)?;
        let most = format!("at most {} tokens", dims.tokens);
        let fits = |length: &u32| *length as usize <= dims.tokens;
        check_all("lengths", self.lengths.unwrap_or_default(), &most, fits)
    }

    /// Token counts stay in 32 bits, and Fenwick has its levels.
    fn check_positions(
        &self,
        dims: &Dims,
        config: &Config,
        cache: Option<&Cache<R>>,
    ) -> Result<()> {
        for i in 0..dims.sequences() {
            let before = cache.map_or(0, |cache| cache.position(dims, i));
            let total = before + self.length(dims, i / dims.heads) as u64;
            check_tokens(total)?;
            check_levels(config.schedule, dims.capacity, total)?;
        }
        Ok(())
    }
}

/// A gate that some backbones need and others refuse.
fn check_gate<R>(
    argument: &'static str,
    gate: Option<&[R]>,
    len: usize,
    backbone: Backbone,
    needed: &[Backbone],
    refused: &[Backbone],
) -> Result<()> {
    match gate {
        Some(_) if refused.contains(&backbone) => {
            let expected = format!("none for the {backbone} backbone");
            Err(Error::input("op", argument, expected, "an array"))
        }
        Some(gate) => check_len(argument, gate.len(), len),
        None if needed.contains(&backbone) => {
            let expected = format!("an array for the {backbone} backbone");
            Err(Error::input("op", argument, expected, "none"))
        }
        None => Ok(()),
    }
}
