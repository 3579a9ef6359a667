//! What a piece of a call brings to the device: ids, lengths, positions, and the events of decisions that are given.

use dla_core::Decisions;
use dla_core::dla::schedule;

use super::batch::Batch;
use super::place::positional;
use super::record::{Call, Cut};
use super::tile::Tile;
use crate::op::event;

impl Batch {
    /// Records the copies of a piece's inputs, from a buffer of their own: no later call can overwrite them.
    pub(super) fn bring(&self, encoder: &mut wgpu::CommandEncoder, tile: &Tile, words: &[u32]) {
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
        let mut parts = vec![
            (&tile.ids, rows),
            (&tile.lengths, batch),
            (&tile.positions, batch),
        ];
        let operator = tile.mixers.recurrent();
        parts.extend(operator.map(|operator| (operator.traces(), events)));
        let mut at = 0;
        for (target, words) in parts.into_iter().filter(|(_, words)| *words > 0) {
            let bytes = words as u64 * 4;
            encoder.copy_buffer_to_buffer(&buffer, at, target, 0, bytes);
            at += bytes;
        }
    }

    /// Ids, lengths, positions and given events of a piece; follows them.
    pub(super) fn upload(&mut self, cut: &Cut, call: &mut Call<'_>) -> Vec<u32> {
        let mut words = Vec::new();
        for (ids, &length) in call.ids.iter().zip(&cut.lengths) {
            let first = cut.first.min(ids.len());
            words.extend_from_slice(&ids[first..first + length]);
            words.extend(std::iter::repeat_n(0, cut.tokens - length));
        }
        words.extend(cut.lengths.iter().map(|&length| length as u32));
        words.extend(self.places.iter().map(|before| before.position as u32));
        match call.wanted.replay {
            Some(replay) => self.replayed_events(cut, call, replay, &mut words),
            None if positional(self.model.config()) => {
                self.positional_events(cut, call, &mut words);
            }
            None => {}
        }
        for (place, &length) in self.places.iter_mut().zip(&cut.lengths) {
            place.position += length as u64;
        }
        words
    }

    /// Room for a piece's given events, `[layers, batch, heads, tokens]` pairs of words with the traces' stride between
    /// layers; the layers' words.
    fn event_room<'a>(
        &self,
        cut: &Cut,
        call: &Call<'_>,
        words: &'a mut Vec<u32>,
    ) -> std::slice::ChunksExactMut<'a, u32> {
        let operator = self.prepared(cut, call.wanted).mixers.recurrent();
        let stride = operator.map_or(0, |operator| operator.trace_stride) as usize / 4;
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
                if let Some(after) = self.places[item].heads.get_mut(layer * dims.heads + head) {
                    *after = *occupancy;
                }
            }
        }
    }

    /// The events that follow from positions; follows them.
    fn positional_events(&mut self, cut: &Cut, call: &Call<'_>, words: &mut Vec<u32>) {
        let config = self.model.config();
        let (dims, schedule) = (config.dims(), config.operator().schedule);
        let mut places = std::mem::take(&mut self.places);
        for (layer, words) in self.event_room(cut, call, words).enumerate() {
            for (item, place) in places.iter_mut().enumerate() {
                for head in 0..dims.heads {
                    let occupancy = &mut place.heads[layer * dims.heads + head];
                    let first = (item * dims.heads + head) * cut.tokens;
                    for t in first..first + cut.lengths[item] {
                        let decision = schedule::positional(schedule, dims.capacity, *occupancy);
                        words[t * 2 + 1] = event::follow(schedule, decision, occupancy);
                    }
                }
            }
        }
        self.places = places;
    }
}
