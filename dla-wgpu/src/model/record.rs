//! A call cut into pieces, and the recording of a piece.

use dla_core::dla::schedule::{self, Occupancy};
use dla_core::model::Rows;
use dla_core::{Decisions, Dims, Error, Result, Schedule};

use super::batch::Batch;
use super::call::{Piece, Shape, Wanted};
use super::tile::{Head, TILES, Tile};
use crate::nn;
use crate::op::event;
use crate::{Dispatch, Readback, dispatch};

/// The most of the largest logits that a call reads back.
const MAX_TOP: usize = 64;

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
        if wanted.top > MAX_TOP {
            let expected = format!("at most {MAX_TOP}");
            return Err(Error::input("model", "top", expected, wanted.top));
        }
        let vocabulary = self.model.config().vocabulary;
        for ids in ids {
            if let Some((t, id)) = ids
                .iter()
                .enumerate()
                .find(|(_, id)| **id as usize >= vocabulary)
            {
                let expected = format!("token ids below the vocabulary of {vocabulary}");
                let got = format!("{id} at token {t}");
                return Err(Error::input("model", "input_ids", expected, got));
            }
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
        let Some(tile) = self.tiles.get(&(cut.tokens, wanted.replay.is_some())) else {
            unreachable!("just made")
        };
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

    /// Records a piece that is ready.
    pub(super) fn record_piece(
        &mut self,
        encoder: &mut wgpu::CommandEncoder,
        cut: &Cut,
        call: &mut Call<'_>,
    ) -> Piece {
        let upload = self.upload(cut, call);
        let Some(tile) = self.tiles.get(&(cut.tokens, call.wanted.replay.is_some())) else {
            unreachable!("made ready before")
        };
        self.bring(encoder, tile, &upload);
        dispatch::record(&tile.body, encoder);
        let shape = self.shape(cut, call.wanted, tile);
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
        let readback = self.bring_back(encoder, &shape, sources);
        Piece { shape, readback }
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
        self.given_events(cut, call, &mut words);
        if call.wanted.replay.is_some() || self.schedule() == Schedule::Dynamic {
            for (before, &length) in self.occupancy.iter_mut().zip(&cut.lengths) {
                before.position += length as u64;
            }
        }
        words
    }

    fn schedule(&self) -> Schedule {
        self.model.config().operator().schedule
    }

    /// The events that decisions given for a piece are, `[layers, batch, heads, tokens]` pairs of words with
    /// the layers' stride between them; none where scores decide.
    fn given_events(&mut self, cut: &Cut, call: &mut Call<'_>, words: &mut Vec<u32>) {
        let (config, schedule) = (self.model.config().clone(), self.schedule());
        let dims = config.dims();
        if call.wanted.replay.is_none() && schedule == Schedule::Dynamic {
            return;
        }
        let Some(tile) = self.tiles.get(&(cut.tokens, call.wanted.replay.is_some())) else {
            unreachable!("made ready before")
        };
        let (start, stride) = (words.len(), tile.trace_stride as usize / 4);
        words.resize(start + stride * config.layers, 0);
        let layers = words[start..].chunks_exact_mut(stride.max(1));
        let mut after = self.occupancy.clone();
        for (layer, words) in layers.enumerate() {
            for (item, &length) in cut.lengths.iter().enumerate() {
                for head in 0..dims.heads {
                    let i = item * dims.heads + head;
                    let mut occupancy = match call.wanted.replay {
                        Some(_) => call.occupancy[layer][i],
                        None => self.occupancy[item],
                    };
                    for t in 0..length {
                        let decision = match call.wanted.replay {
                            Some(replay) => {
                                let at = dims.token_head(0, cut.first + t, head);
                                replay[item][layer].get(at)
                            }
                            None => schedule::positional(schedule, dims.capacity, occupancy),
                        };
                        occupancy.advance(schedule, decision);
                        let word = event::word(decision, occupancy.count);
                        words[(i * cut.tokens + t) * 2 + 1] = word;
                    }
                    match call.wanted.replay {
                        Some(_) => call.occupancy[layer][i] = occupancy,
                        None => after[item] = occupancy,
                    }
                }
            }
        }
        if call.wanted.replay.is_none() {
            self.occupancy = after;
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

    /// Records the copies of what a piece reads back, into one buffer.
    fn bring_back(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        shape: &Shape,
        sources: [Option<&wgpu::Buffer>; 3],
    ) -> Option<Readback> {
        let sizes = shape.bytes();
        let total = sizes.iter().sum();
        if total == 0 {
            return None;
        }
        let readback = Readback::unscoped(self.model.gpu(), total);
        let mut at = 0;
        for (source, size) in sources.into_iter().zip(sizes) {
            if let Some(source) = source {
                readback.copy_range(encoder, (source, 0), at, size);
            }
            at += size;
        }
        Some(readback)
    }
}
