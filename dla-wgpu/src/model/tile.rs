//! The prepared work of a call's piece: T tokens of every sequence.

use std::collections::HashMap;

use dla_core::Result;

use super::Model;
use super::mixer::Mixers;
use super::rooms::{Call, Rooms};
use super::sequences::Sequences;
use crate::Dispatch;
use crate::nn::{self, Embedding, Input, Linear, Rows, TopK};
use crate::plan::MAX_BATCH;

/// The numbers of tokens that calls are cut into.
pub const TILES: [usize; 4] = [1, 16, 64, 256];

/// Work prepared for a number of tokens: buffers and dispatches.
#[derive(Debug)]
pub(super) struct Tile {
    pub(super) rows: Rows,
    /// Token ids, `[batch, tokens]`.
    pub(super) ids: wgpu::Buffer,
    /// Tokens of each sequence, a uniform buffer.
    pub(super) lengths: wgpu::Buffer,
    /// Tokens before this piece, a uniform buffer.
    pub(super) positions: wgpu::Buffer,
    /// The residual stream, `[batch, tokens, hidden]`.
    pub(super) x: wgpu::Buffer,
    /// What the blocks' mixers share.
    pub(super) mixers: Mixers,
    /// From the ids to the residual stream after the last block.
    pub(super) body: Vec<Dispatch>,
    /// How many dispatches of the body lead through each block.
    pub(super) blocks: Vec<usize>,
    /// The last token of each sequence to its logits.
    pub(super) last: Head,
    /// Every token to its logits; made when first asked for.
    all: Option<Head>,
    /// The largest logits of each last token, by how many.
    top: HashMap<usize, Top>,
}

/// Rows of the residual stream to logits.
#[derive(Debug)]
pub(super) struct Head {
    /// `[rows, hidden]`.
    pub(super) x: wgpu::Buffer,
    /// `[rows, vocabulary]`.
    pub(super) logits: wgpu::Buffer,
    pub(super) dispatches: Vec<Dispatch>,
}

/// The largest logits.
#[derive(Debug)]
pub(super) struct Top {
    /// As [`TopK::read`] takes them.
    pub(super) best: wgpu::Buffer,
    pub(super) dispatches: Vec<Dispatch>,
}

impl Tile {
    /// Compiles, allocates and binds everything for `tokens` tokens of `sequences`; with `replay` decisions are given.
    pub(super) async fn new(
        model: &Model,
        sequences: &Sequences,
        rows: Rows,
        replay: bool,
    ) -> Result<Self> {
        let (gpu, config) = (model.gpu(), model.config());
        let count = rows.count()?;
        let mixers = Mixers::new(model, rows, replay, sequences.room()).await?;
        let rooms = Rooms::new(gpu, config, rows).await?;
        let ids = nn::buffer(gpu, "ids", count).await?;
        let positions = nn::uniform(gpu, "positions", MAX_BATCH).await?;
        let table = Embedding {
            table: &model.weights().embeddings,
        };
        let lengths = mixers.lengths().clone();
        let mut body = table.prepare(gpu, rows, &lengths, &ids, &rooms.x).await?;
        let mut blocks = Vec::with_capacity(config.layers);
        let memories = model.weights().blocks.iter().zip(sequences.layers());
        for (index, (weights, memory)) in memories.enumerate() {
            let call = Call {
                gpu,
                config,
                rows,
                rooms: &rooms,
                positions: &positions,
                index,
            };
            body.extend(call.prepare(&mixers, weights, memory).await?);
            blocks.push(body.len());
        }
        let last = match rows.tokens {
            1 => rooms.x.clone(),
            _ => nn::buffer(gpu, "last", rows.batch * config.hidden).await?,
        };
        let each = Rows { tokens: 1, ..rows };
        Ok(Self {
            rows,
            ids,
            lengths,
            positions,
            x: rooms.x,
            mixers,
            body,
            blocks,
            last: Head::new(model, each, last).await?,
            all: None,
            top: HashMap::new(),
        })
    }

    /// Makes ready what reads every token's logits.
    pub(super) async fn ready_all(&mut self, model: &Model) -> Result<()> {
        if self.all.is_none() {
            self.all = Some(Head::new(model, self.rows, self.x.clone()).await?);
        }
        Ok(())
    }

    /// Makes ready what finds the `k` largest logits.
    pub(super) async fn ready_top(&mut self, model: &Model, k: usize) -> Result<()> {
        if k == 0 || self.top.contains_key(&k) {
            return Ok(());
        }
        let gpu = model.gpu();
        let top = TopK {
            values: model.config().vocabulary,
            best: k,
        };
        let batch = self.rows.batch;
        let best = nn::buffer(gpu, "best", batch * top.row_words()).await?;
        let dispatches = top.prepare(gpu, batch, &self.last.logits, &best).await?;
        self.top.insert(k, Top { best, dispatches });
        Ok(())
    }

    /// What reads every token's logits, once it is ready.
    pub(super) fn all(&self) -> Option<&Head> {
        self.all.as_ref()
    }

    /// What finds the `k` largest logits, once it is ready.
    pub(super) fn top(&self, k: usize) -> Option<&Top> {
        self.top.get(&k)
    }
}

impl Head {
    async fn new(model: &Model, rows: Rows, x: wgpu::Buffer) -> Result<Self> {
        let (gpu, config, weights) = (model.gpu(), model.config(), model.weights());
        let count = rows.count()?;
        let normed = nn::buffer(gpu, "normed", count * config.hidden).await?;
        let logits = nn::buffer(gpu, "logits", count * config.vocabulary).await?;
        let head = Linear {
            weight: weights.head.as_ref().unwrap_or(&weights.embeddings),
            bias: None,
            input: Input::Normed {
                weight: &weights.norm,
                epsilon: config.norm_epsilon,
                scratch: &normed,
            },
            residual: false,
        };
        let dispatches = head.prepare(gpu, rows, &x, &logits).await?;
        Ok(Self {
            x,
            logits,
            dispatches,
        })
    }
}
