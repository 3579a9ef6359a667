//! The book of states: which tokens every live state holds, followed from scores and decisions alone.
//!
//! A run reads back a score and a decision for each token and head, and no matrix. The ledger turns
//! them into events and knows at every moment what the cache of that run knows, `n` and Ī of each
//! state, and beyond it where the state's tokens lie and who it is.

use std::ops::Range;

use crate::cache::Cache;
use crate::check::check_len;
use crate::config::Schedule;
use crate::decisions::{Decision, Decisions};
use crate::dims::Dims;
use crate::dla::boundary::information;
use crate::error::{Error, Result};

/// A live state. Only neighbours merge, so its tokens are one span of the sequence.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "checkpoint", derive(serde::Serialize))]
pub struct LiveState {
    /// Who it is, counted from 0 in each head as states open; a merged pair keeps its older name.
    pub id: u64,
    /// Position of its first token in the whole sequence.
    pub start: u64,
    /// Tokens it holds.
    pub n: u32,
    /// The sum of their scores, Ī.
    pub info: f32,
}

impl LiveState {
    /// The positions of its tokens.
    pub fn tokens(&self) -> Range<u64> {
        self.start..self.start + u64::from(self.n)
    }

    /// Information per token, Ī / n.
    pub fn density(&self) -> f32 {
        self.info / self.n as f32
    }

    /// This state and the next younger one as one, as merging makes it.
    #[must_use]
    pub fn merged(&self, newer: &Self) -> Self {
        Self {
            n: self.n + newer.n,
            info: self.info + newer.info,
            ..*self
        }
    }
}

/// What happened to one head at one token: its merges first, then the token's opening or joining.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(
    feature = "checkpoint",
    derive(serde::Serialize),
    serde(tag = "event", rename_all = "snake_case")
)]
pub enum Event {
    /// Two neighbours became one to make room; Fenwick collapses several, one event for each pair.
    Merged {
        /// Time-order index of the older one.
        at: usize,
        /// The older one as it was before; its name stays.
        older: LiveState,
        /// The younger one as it was before.
        newer: LiveState,
    },
    /// The token opened a state.
    Opened {
        /// The new state.
        state: u64,
        /// The token's score.
        score: f32,
    },
    /// The token joined the open state; with a capacity of 1 it does so whatever its score.
    Joined {
        /// The open state.
        state: u64,
        /// The token's score; one that is not finite added nothing to Ī.
        score: f32,
    },
}

/// An event, with its place.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "checkpoint", derive(serde::Serialize))]
pub struct Entry {
    /// Sequence of the batch.
    pub sequence: usize,
    /// Head.
    pub head: usize,
    /// Position of the token in the whole sequence, calls before this one included.
    pub token: u64,
    /// What happened.
    #[cfg_attr(feature = "checkpoint", serde(flatten))]
    pub event: Event,
}

/// The live states of every sequence and head, kept up from call to call.
///
/// ```
/// use dla_core::trace::ledger::Ledger;
/// use dla_core::{Decisions, Dims, Schedule};
/// let dims = Dims { batch: 1, tokens: 3, heads: 1, groups: 1, key_dim: 1, value_dim: 1, capacity: 2 };
/// let decisions = Decisions { boundary: vec![1, 0, 1], merge_at: vec![-1; 3] };
/// let mut ledger = Ledger::new(dims, Schedule::Dynamic)?;
/// let mut events = 0;
/// ledger.take(3, &[0.0, 0.5, 1.5], &decisions, None, |_| events += 1)?;
/// let spans: Vec<_> = ledger.states(0, 0).iter().map(|state| state.tokens()).collect();
/// assert_eq!((events, spans), (3, vec![0..2, 2..3]));
/// assert_eq!(ledger.states(0, 0)[0].density(), 0.25);
/// # Ok::<(), dla_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Ledger {
    dims: Dims,
    schedule: Schedule,
    /// `[batch, heads]`.
    heads: Vec<Head>,
}

impl Ledger {
    /// The book of sequences that have not begun; `dims.tokens` is not read.
    ///
    /// # Errors
    /// What [`Dims::check`] refuses.
    pub fn new(dims: Dims, schedule: Schedule) -> Result<Self> {
        let dims = Dims { tokens: 0, ..dims };
        dims.check()?;
        Ok(Self {
            heads: vec![Head::default(); dims.sequences()],
            dims,
            schedule,
        })
    }

    /// The book of sequences that go on from `cache`, whose states are named 0, 1, … from the oldest.
    ///
    /// # Errors
    /// What [`Dims::check`] and [`Cache::check`] refuse.
    pub fn from_cache(dims: Dims, schedule: Schedule, cache: &Cache<f32>) -> Result<Self> {
        let mut ledger = Self::new(dims, schedule)?;
        cache.check(&ledger.dims, schedule)?;
        for (i, head) in ledger.heads.iter_mut().enumerate() {
            let entries = i * dims.capacity..(i + 1) * dims.capacity;
            let live = entries.filter(|&entry| cache.n[entry] > 0);
            let state = |entry: usize| (cache.n[entry], cache.info[entry]);
            match schedule {
                Schedule::Fenwick => live.rev().map(state).for_each(|held| head.hold(held)),
                _ => live.map(state).for_each(|held| head.hold(held)),
            }
        }
        Ok(ledger)
    }

    /// The live states of head `head` of sequence `sequence`, oldest first; empty beyond the sizes.
    pub fn states(&self, sequence: usize, head: usize) -> &[LiveState] {
        let heads = self.heads.chunks(self.dims.heads).nth(sequence);
        heads
            .and_then(|heads| heads.get(head))
            .map_or(&[], |head| &head.states)
    }

    /// Tokens that sequence `sequence` has taken in; 0 beyond the batch.
    pub fn position(&self, sequence: usize) -> u64 {
        let first = self.heads.get(sequence * self.dims.heads);
        first.map_or(0, |head| head.position)
    }

    /// Takes in the next `tokens` tokens: `score` and `decisions` `[batch, tokens, heads]` of a call,
    /// `lengths` `[batch]` as in [`Inputs`](crate::Inputs). `see` gets every event, token by token
    /// and there head by head.
    ///
    /// # Errors
    /// Arrays of the wrong length, lengths beyond `tokens`, positions beyond 32 bits, and decisions
    /// that no run from these states could have made; the ledger is as before then.
    pub fn take(
        &mut self,
        tokens: usize,
        score: &[f32],
        decisions: &Decisions,
        lengths: Option<&[u32]>,
        mut see: impl FnMut(&Entry),
    ) -> Result<()> {
        let dims = Dims {
            tokens,
            ..self.dims
        };
        self.check(&dims, score, decisions, lengths)?;
        for sequence in 0..dims.batch {
            let length = lengths.map_or(tokens, |lengths| lengths[sequence] as usize);
            for t in 0..length {
                for head in 0..dims.heads {
                    let at = dims.token_head(sequence, t, head);
                    let book = &mut self.heads[sequence * dims.heads + head];
                    let token = book.position;
                    book.advance(self.schedule, score[at], decisions.get(at), |event| {
                        see(&Entry {
                            sequence,
                            head,
                            token,
                            event,
                        });
                    });
                }
            }
        }
        Ok(())
    }

    fn check(
        &self,
        dims: &Dims,
        score: &[f32],
        decisions: &Decisions,
        lengths: Option<&[u32]>,
    ) -> Result<()> {
        dims.check()?;
        check_len("score", score.len(), dims.token_heads())?;
        if let Some(lengths) = lengths {
            check_len("lengths", lengths.len(), dims.batch)?;
            if let Some(&most) = lengths.iter().max().filter(|&&n| n as usize > dims.tokens) {
                let expected = format!("at most {} tokens", dims.tokens);
                return Err(Error::input("op", "lengths", expected, most));
            }
        }
        let furthest = self.heads.iter().map(|head| head.position).max();
        let total = furthest.unwrap_or_default() + dims.tokens as u64;
        if total > u64::from(u32::MAX) {
            let expected = "at most 2^32 − 1 tokens in a sequence";
            return Err(Error::input("op", "tokens", expected, total));
        }
        let config = crate::Config {
            schedule: self.schedule,
            ..crate::Config::new(crate::Backbone::Plain)
        };
        decisions.check(dims, &config, lengths, Some(&self.counts()))
    }

    /// Tokens of each state, oldest first, `[batch, heads, capacity]`.
    fn counts(&self) -> Vec<u32> {
        let capacity = self.dims.capacity;
        let row = |head: &Head| {
            let mut row = vec![0; capacity];
            let counts = head.states.iter().map(|state| state.n);
            row.iter_mut().zip(counts).for_each(|(to, n)| *to = n);
            row
        };
        self.heads.iter().flat_map(row).collect()
    }
}

/// One head of one sequence.
#[derive(Clone, Debug, Default, PartialEq)]
struct Head {
    /// Oldest first.
    states: Vec<LiveState>,
    /// States that ever opened: the next one's name.
    opened: u64,
    /// Tokens taken in.
    position: u64,
}

impl Head {
    /// Takes in a state of an earlier run.
    fn hold(&mut self, (n, info): (u32, f32)) {
        self.open(n, info);
        self.position += u64::from(n);
    }

    fn open(&mut self, n: u32, info: f32) -> u64 {
        let id = self.opened;
        let start = self.position;
        self.states.push(LiveState { id, start, n, info });
        self.opened += 1;
        id
    }

    /// One token: merges, then the write, as [`merge::apply`](crate::dla::merge::apply) has them.
    fn advance(
        &mut self,
        schedule: Schedule,
        score: f32,
        decision: Decision,
        mut see: impl FnMut(Event),
    ) {
        let lone = self.states.len() == 1 && decision.merge_at.is_some();
        if let Some(at) = decision.merge_at {
            let left = match schedule {
                Schedule::Fenwick => at + 1,
                _ => self.states.len().saturating_sub(1),
            };
            while self.states.len() > left && at + 1 < self.states.len() {
                see(self.merge(at));
            }
        }
        let info = information(score);
        match self.states.last_mut() {
            Some(open) if lone || !decision.opens => {
                open.n += 1;
                open.info += info;
                let state = open.id;
                see(Event::Joined { state, score });
            }
            _ => {
                let state = self.open(1, info);
                see(Event::Opened { state, score });
            }
        }
        self.position += 1;
    }

    fn merge(&mut self, at: usize) -> Event {
        let newer = self.states.remove(at + 1);
        let older = self.states[at];
        self.states[at] = older.merged(&newer);
        Event::Merged { at, older, newer }
    }
}
