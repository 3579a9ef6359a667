//! A call cut into pieces, and the recording of a piece.

use dla_core::dla::schedule::{self, Occupancy};
use dla_core::model::Rows;
use dla_core::nn::embedding::check_ids;
use dla_core::{Decisions, Dims, Error, Result, Schedule};

use super::batch::Batch;
use super::call::{GATES, Piece, Shape, Wanted};
use super::tile::{Head, TILES, Tile};
use crate::nn;
use crate::op::event;
use crate::{Dispatch, Readback, dispatch};

/// A call that is checked and on its way.
pub(super) struct Call<'a> {
    ids: &'a [&'a [u32]],
    wanted: &'a Wanted<'a>,
    /// The live states of every layer, sequence and head, followed where decisions are given.
    occupancy: Vec<Vec<Occupancy>>,
}

/// A piece of a call: at most `tokens` tokens of every sequence from `first` on.
pub(super) struct Cut {
    first: usize,
    tokens: usize,
    /// Tokens of each sequence.
    lengths: Vec<usize>,
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
        let (schedule, capacity) = (config.operator().schedule, config.dims().capacity);
        for (ids, before) in ids.iter().zip(&self.occupancy) {
            check_ids(ids, config.vocabulary)?;
            schedule::check_levels(schedule, capacity, before.position + ids.len() as u64)?;
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

    /// Checks decisions against the states that they start from.
    async fn replayed(
        &self,
        ids: &[&[u32]],
        replay: &[&[Decisions]],
    ) -> Result<Vec<Vec<Occupancy>>> {
        let config = self.model.config();
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

    /// The tokens of a piece where `left` are left: those at once, if their logits fit.
    fn tile(&self, left: usize, wanted: &Wanted<'_>) -> usize {
        let row = self.model.config().vocabulary as u64 * 4 * self.sequences() as u64;
        let most = self.model.gpu().max_binding();
        let fits = |tokens: usize| wanted.logits != Rows::All || row * tokens as u64 <= most;
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
    fn prepared(&self, cut: &Cut, wanted: &Wanted<'_>) -> &Tile {
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
        let sources = [logits, top.map(|top| &top.best), Some(&tile.traces)];
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
        let Some(readback) = readback.filter(|_| shape.control > 0) else {
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
                    readback.copy_range(encoder, (&tile.control, from), at, row);
                }
            }
        }
    }

    /// What a piece reads back.
    fn shape(&self, cut: &Cut, wanted: &Wanted<'_>, tile: &Tile) -> Shape {
        let config = self.model.config();
        let ends = cut.ends.contains(&true);
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
            trace: if wanted.traces { tile.trace_stride } else { 0 },
            control: match wanted.lambda && ends {
                true => GATES + config.dims().capacity,
                false => 0,
            },
        }
    }

    /// Records the copies of a piece's inputs, from a buffer of their own: no later call can overwrite them.
    fn bring(&self, encoder: &mut wgpu::CommandEncoder, tile: &Tile, words: &[u32]) {
        let buffer = self
            .model
            .gpu()
            .device()
            .create_buffer(&wgpu::BufferDescriptor {
                label: Some("ids"),
                size: words.len() as u64 * 4,
                usage: wgpu::BufferUsages::COPY_SRC,
                mapped_at_creation: true,
            });
        if let Ok(mut view) = buffer.slice(..).get_mapped_range_mut() {
            view.copy_from_slice(bytemuck::cast_slice(words));
        }
        buffer.unmap();
        let batch = self.sequences();
        let rows = batch * tile.rows.tokens;
        let events = words.len() - rows - 2 * batch;
        let parts = [
            (&tile.ids, rows),
            (&tile.lengths, batch),
            (&tile.positions, batch),
            (&tile.traces, events),
        ];
        let mut at = 0;
        for (target, words) in parts.into_iter().filter(|(_, words)| *words > 0) {
            let bytes = words as u64 * 4;
            encoder.copy_buffer_to_buffer(&buffer, at, target, 0, bytes);
            at += bytes;
        }
    }

    /// Ids, lengths, positions and given events of a piece; follows them.
    fn upload(&mut self, cut: &Cut, call: &mut Call<'_>) -> Vec<u32> {
        let mut words = Vec::new();
        for (ids, &length) in call.ids.iter().zip(&cut.lengths) {
            let first = cut.first.min(ids.len());
            words.extend_from_slice(&ids[first..first + length]);
            words.extend(std::iter::repeat_n(0, cut.tokens - length));
        }
        words.extend(cut.lengths.iter().map(|&length| length as u32));
        words.extend(self.occupancy.iter().map(|before| before.position as u32));
        let schedule = self.model.config().operator().schedule;
        match (call.wanted.replay, schedule) {
            (Some(replay), _) => self.replayed_events(cut, call, replay, &mut words),
            (None, Schedule::Dynamic) => self.advance(cut),
            (None, _) => self.positional_events(cut, call, &mut words),
        }
        words
    }

    /// The sequences have taken in a piece whose decisions do not follow from positions.
    fn advance(&mut self, cut: &Cut) {
        for (before, &length) in self.occupancy.iter_mut().zip(&cut.lengths) {
            before.position += length as u64;
        }
    }

    /// Room for a piece's given events, `[layers, batch, heads, tokens]` pairs of words with the traces' stride between
    /// layers; the layers' words.
    fn event_room<'a>(
        &self,
        cut: &Cut,
        call: &Call<'_>,
        words: &'a mut Vec<u32>,
    ) -> std::slice::ChunksExactMut<'a, u32> {
        let stride = self.prepared(cut, call.wanted).trace_stride as usize / 4;
        let start = words.len();
        words.resize(start + stride * self.model.config().layers, 0);
        words[start..].chunks_exact_mut(stride.max(1))
    }

    /// The events of given decisions; follows them.
    fn replayed_events(
        &mut self,
        cut: &Cut,
        call: &mut Call<'_>,
        replay: &[&[Decisions]],
        words: &mut Vec<u32>,
    ) {
        let config = self.model.config();
        let (dims, schedule) = (config.dims(), config.operator().schedule);
        let layers = self.event_room(cut, call, words);
        for (layer, (words, occupancy)) in layers.zip(&mut call.occupancy).enumerate() {
            for (i, occupancy) in occupancy.iter_mut().enumerate() {
                let (item, head) = (i / dims.heads, i % dims.heads);
                for t in 0..cut.lengths[item] {
                    let at = dims.token_head(0, cut.first + t, head);
                    let decision = replay[item][layer].get(at);
                    words[(i * cut.tokens + t) * 2 + 1] =
                        event::follow(schedule, decision, occupancy);
                }
            }
        }
        self.advance(cut);
    }

    /// The events that follow from positions, the same for all layers and heads; follows them.
    fn positional_events(&mut self, cut: &Cut, call: &Call<'_>, words: &mut Vec<u32>) {
        let config = self.model.config();
        let (dims, schedule) = (config.dims(), config.operator().schedule);
        let mut after = self.occupancy.clone();
        let followed = after.iter_mut().zip(&cut.lengths);
        let events: Vec<Vec<u32>> = followed
            .map(|(occupancy, &length)| {
                let tokens = 0..length;
                let event = |_| {
                    let decision = schedule::positional(schedule, dims.capacity, *occupancy);
                    [0, event::follow(schedule, decision, occupancy)]
                };
                tokens.flat_map(event).collect()
            })
            .collect();
        for words in self.event_room(cut, call, words) {
            for (item, events) in events.iter().enumerate() {
                for head in 0..dims.heads {
                    let at = (item * dims.heads + head) * cut.tokens * 2;
                    words[at..][..events.len()].copy_from_slice(events);
                }
            }
        }
        self.occupancy = after;
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
