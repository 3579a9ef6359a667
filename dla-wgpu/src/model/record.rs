//! A call cut into pieces, and the recording of a piece.

use dla_core::dla::schedule::{self, Occupancy};
use dla_core::model::Rows;
use dla_core::nn::embedding::check_ids;
use dla_core::{Decisions, Dims, Error, Result};

use super::batch::Batch;
use super::call::{GATES, Piece, Shape, Wanted};
use super::mixer::Recurrent;
use super::place::Place;
use super::specs::BlockSpecs;
use super::tile::{Head, TILES, Tile};
use crate::nn;
use crate::{Dispatch, Readback, dispatch};

/// A call that is checked and on its way.
pub(super) struct Call<'a> {
    pub(super) ids: &'a [&'a [u32]],
    pub(super) wanted: &'a Wanted<'a>,
    /// The live states of every layer, sequence and head, followed where decisions are given.
    pub(super) occupancy: Vec<Vec<Occupancy>>,
}

/// A piece of a call: at most `tokens` tokens of every sequence from `first` on.
pub(super) struct Cut {
    pub(super) first: usize,
    pub(super) tokens: usize,
    /// Tokens of each sequence.
    pub(super) lengths: Vec<usize>,
    /// Whether a sequence's last token is among them.
    ends: Vec<bool>,
}

impl Batch {
    /// Checks a call.
    pub(super) async fn begin<'a>(
        &self,
        ids: &'a [&'a [u32]],
        wanted: &'a Wanted<'a>,
    ) -> Result<Call<'a>> {
        if ids.len() != self.sequences() {
            let expected = format!("tokens of {} sequences", self.sequences());
            return Err(Error::input("model", "input_ids", expected, ids.len()));
        }
        if wanted.top > nn::MAX_BEST {
            let expected = format!("at most {}", nn::MAX_BEST);
            return Err(Error::input("model", "top", expected, wanted.top));
        }
        let config = self.model.config();
        for (ids, before) in ids.iter().zip(&self.places) {
            check_ids(ids, config.vocabulary)?;
            self.check_position(before.position + ids.len() as u64)?;
        }
        let occupancy = match wanted.replay {
            Some(replay) => self.replayed(ids, replay).await?,
            None => Vec::new(),
        };
        Ok(Call {
            ids,
            wanted,
            occupancy,
        })
    }

    /// Refuses to take a sequence to a position that its memory cannot hold.
    fn check_position(&self, position: u64) -> Result<()> {
        let config = self.model.config();
        schedule::check_tokens(position)?;
        match config.attention() {
            Some(_) => self.sequences.check_tokens(position),
            None => {
                let (schedule, capacity) = (config.operator().schedule, config.dims().capacity);
                schedule::check_levels(schedule, capacity, position)
            }
        }
    }

    /// The most tokens that a sequence will have taken in after a call.
    pub(super) fn longest(&self, call: &Call<'_>) -> u64 {
        let after = |(before, ids): (&Place, &&[u32])| before.position + ids.len() as u64;
        let sequences = self.places.iter().zip(call.ids);
        sequences.map(after).max().unwrap_or(0)
    }

    /// Checks decisions against the states that they start from.
    async fn replayed(
        &self,
        ids: &[&[u32]],
        replay: &[&[Decisions]],
    ) -> Result<Vec<Vec<Occupancy>>> {
        let config = self.model.config();
        if config.attention().is_some() {
            let expected = "no decisions: softmax attention has no states";
            return Err(Error::input("model", "replay", expected, replay.len()));
        }
        if replay.len() != ids.len() || replay.iter().any(|layers| layers.len() != config.layers) {
            let expected = format!("decisions of {} layers for every sequence", config.layers);
            return Err(Error::input("model", "replay", expected, replay.len()));
        }
        let counts = self.sequences.counts(self.model.gpu()).await?;
        let (dims, settings) = (config.dims(), config.operator());
        let entries = dims.heads * dims.capacity;
        let mut occupancy = Vec::with_capacity(config.layers);
        for (layer, n) in counts.iter().enumerate() {
            let mut heads = Vec::new();
            for (item, n) in n.chunks_exact(entries).enumerate() {
                let tokens = ids[item].len();
                let call = Dims { tokens, ..dims };
                replay[item][layer].check(&call, &settings, None, Some(n))?;
                heads.extend((0..dims.heads).map(|head| Occupancy::of(&call, Some(n), head)));
            }
            occupancy.push(heads);
        }
        Ok(occupancy)
    }

    /// The pieces of a call.
    pub(super) fn cuts(&self, call: &Call<'_>) -> Vec<Cut> {
        let longest = call.ids.iter().map(|ids| ids.len()).max().unwrap_or(0);
        let mut cuts = Vec::new();
        let mut first = 0;
        while first < longest {
            let tokens = self.tile(longest - first, call.wanted);
            let end = first + tokens;
            let length = |ids: &&[u32]| ids.len().clamp(first, end) - first;
            cuts.push(Cut {
                first,
                tokens,
                lengths: call.ids.iter().map(length).collect(),
                ends: call
                    .ids
                    .iter()
                    .map(|ids| ids.len() > first && ids.len() <= end)
                    .collect(),
            });
            first = end;
        }
        cuts
    }

    /// The tokens of a piece where `left` are left: those at once, if their rows and logits fit.
    fn tile(&self, left: usize, wanted: &Wanted<'_>) -> usize {
        let config = self.model.config();
        let logits = match wanted.logits {
            Rows::All => config.vocabulary,
            Rows::None | Rows::Last => 0,
        };
        let values = logits.max(BlockSpecs::of(config).widest(config));
        let row = values as u64 * 4 * self.sequences() as u64;
        let most = self.model.gpu().max_binding();
        let fits = |tokens: usize| row * tokens as u64 <= most;
        let tiles = TILES
            .into_iter()
            .filter(|&tokens| tokens == 1 || fits(tokens));
        let tiles: Vec<_> = tiles.collect();
        let enough = tiles.iter().find(|&&tokens| tokens >= left);
        enough.or(tiles.last()).copied().unwrap_or(1)
    }

    /// What the longest piece of a call of `tokens` tokens dispatches, in order: to count and to time.
    ///
    /// # Errors
    /// As [`Batch::run`].
    pub async fn dispatches(
        &mut self,
        tokens: usize,
        wanted: &Wanted<'_>,
    ) -> Result<Vec<Dispatch>> {
        let cut = Cut {
            first: 0,
            tokens: self.tile(tokens, wanted),
            lengths: Vec::new(),
            ends: Vec::new(),
        };
        self.ready(&cut, wanted).await?;
        let tile = self.prepared(&cut, wanted);
        let mut dispatches = tile.body.clone();
        if wanted.logits == Rows::Last || wanted.top > 0 {
            dispatches.extend_from_slice(&tile.last.dispatches);
        }
        dispatches.extend(
            tile.top(wanted.top)
                .into_iter()
                .flat_map(|top| top.dispatches.clone()),
        );
        if wanted.logits == Rows::All {
            dispatches.extend(
                tile.all()
                    .into_iter()
                    .flat_map(|head| head.dispatches.clone()),
            );
        }
        Ok(dispatches)
    }

    /// Prepares what a piece needs, unless it is there.
    pub(super) async fn ready(&mut self, cut: &Cut, wanted: &Wanted<'_>) -> Result<()> {
        let key = (cut.tokens, wanted.replay.is_some());
        if !self.tiles.contains_key(&key) {
            let rows = nn::Rows {
                batch: self.sequences(),
                tokens: cut.tokens,
            };
            let tile = Tile::new(&self.model, &self.sequences, rows, key.1).await?;
            self.tiles.insert(key, tile);
        }
        let Some(tile) = self.tiles.get_mut(&key) else {
            unreachable!("just made")
        };
        if wanted.logits == Rows::All {
            tile.ready_all(&self.model).await?;
        }
        tile.ready_top(&self.model, wanted.top).await
    }

    /// The prepared work of a piece that is ready.
    pub(super) fn prepared(&self, cut: &Cut, wanted: &Wanted<'_>) -> &Tile {
        match self.tiles.get(&(cut.tokens, wanted.replay.is_some())) {
            Some(tile) => tile,
            None => unreachable!("made ready before"),
        }
    }

    /// Records a piece that is ready.
    pub(super) fn record_piece(
        &mut self,
        encoder: &mut wgpu::CommandEncoder,
        cut: &Cut,
        call: &mut Call<'_>,
    ) -> Piece {
        let upload = self.upload(cut, call);
        let tile = self.prepared(cut, call.wanted);
        self.bring(encoder, tile, &upload);
        let shape = self.shape(cut, call.wanted, tile);
        let readback = self.room(&shape);
        self.record_body(encoder, tile, &shape, readback.as_ref());
        let ends = cut.ends.contains(&true);
        let last = shape.logits == Rows::Last || shape.top.is_some();
        if last && ends {
            self.gather_last(encoder, tile, cut);
            dispatch::record(&tile.last.dispatches, encoder);
        }
        let top = shape.top.and_then(|top| tile.top(top.best));
        if let Some(top) = top {
            dispatch::record(&top.dispatches, encoder);
        }
        let head = match shape.logits {
            Rows::None => None,
            Rows::Last => Some(&tile.last),
            Rows::All => tile
                .all()
                .inspect(|head| dispatch::record(&head.dispatches, encoder)),
        };
        let logits = head.map(|head: &Head| &head.logits);
        let traces = tile.mixers.recurrent().map(Recurrent::traces);
        let sources = [logits, top.map(|top| &top.best), traces];
        if let Some(readback) = &readback {
            bring_back(encoder, &shape, sources, readback);
        }
        Piece { shape, readback }
    }

    /// Room for what a piece reads back, if it reads anything.
    fn room(&self, shape: &Shape) -> Option<Readback> {
        let total = shape.bytes().iter().sum();
        (total > 0).then(|| Readback::unscoped(self.model.gpu(), total))
    }

    /// Records the blocks. Where λ is wanted, the last tokens' is copied from between them: they share its buffer.
    fn record_body(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        tile: &Tile,
        shape: &Shape,
        readback: Option<&Readback>,
    ) {
        let wanted = readback.filter(|_| shape.control > 0);
        let (Some(readback), Some(operator)) = (wanted, tile.mixers.recurrent()) else {
            return dispatch::record(&tile.body, encoder);
        };
        let (mut first, row) = (0, shape.control_row());
        for (layer, &end) in tile.blocks.iter().enumerate() {
            dispatch::record(&tile.body[first..end], encoder);
            first = end;
            for (item, &length) in shape.lengths.iter().enumerate() {
                if shape.ends[item] {
                    let from = (item * shape.tokens + length - 1) as u64 * row;
                    let at = shape.control_at(layer, item);
                    readback.copy_range(encoder, (operator.control(), from), at, row);
                }
            }
        }
    }

    /// What a piece reads back.
    fn shape(&self, cut: &Cut, wanted: &Wanted<'_>, tile: &Tile) -> Shape {
        let config = self.model.config();
        let ends = cut.ends.contains(&true);
        let operator = tile.mixers.recurrent();
        Shape {
            lengths: cut.lengths.clone(),
            ends: cut.ends.clone(),
            tokens: cut.tokens,
            vocabulary: config.vocabulary,
            heads: config.dims().heads,
            layers: config.layers,
            logits: match wanted.logits {
                Rows::Last if !ends => Rows::None,
                logits => logits,
            },
            top: (ends && wanted.top > 0).then_some(nn::TopK {
                values: config.vocabulary,
                best: wanted.top,
            }),
            trace: match operator {
                Some(operator) if wanted.traces => operator.trace_stride,
                _ => 0,
            },
            control: match operator {
                Some(_) if wanted.lambda && ends => GATES + config.dims().capacity,
                _ => 0,
            },
        }
    }

    /// Records the copies of each sequence's last row to where the head reads them.
    fn gather_last(&self, encoder: &mut wgpu::CommandEncoder, tile: &Tile, cut: &Cut) {
        if cut.tokens == 1 {
            return;
        }
        let row = self.model.config().hidden as u64 * 4;
        for (item, &length) in cut.lengths.iter().enumerate() {
            if cut.ends[item] {
                let from = (item * cut.tokens + length - 1) as u64 * row;
                encoder.copy_buffer_to_buffer(&tile.x, from, &tile.last.x, item as u64 * row, row);
            }
        }
    }
}

/// Records the copies of logits, largest logits and traces to the front of what a piece reads back.
fn bring_back(
    encoder: &mut wgpu::CommandEncoder,
    shape: &Shape,
    sources: [Option<&wgpu::Buffer>; 3],
    readback: &Readback,
) {
    let mut at = 0;
    for (source, size) in sources.into_iter().zip(shape.bytes()) {
        if let Some(source) = source {
            readback.copy_range(encoder, (source, 0), at, size);
        }
        at += size;
    }
}
