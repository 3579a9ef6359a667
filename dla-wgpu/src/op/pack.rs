//! Host arrays to the device's layouts and back.

use dla_core::dla::readout::weight_index;
use dla_core::dla::schedule::Occupancy;
use dla_core::{Cache, Decisions, Dims, Inputs, Schedule, Trace};
use half::f16;

use super::event;
use crate::spec::Float;

/// The part of a call that one submission runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    /// Batch items `[first, end)`.
    pub(crate) batch: (usize, usize),
    /// Tokens `[first, end)`.
    pub(crate) tokens: (usize, usize),
}

impl Piece {
    /// The pieces of a call in order, of at most `items` batch items and `tokens` tokens.
    pub(crate) fn all(dims: &Dims, items: usize, tokens: usize) -> impl Iterator<Item = Self> {
        let Dims {
            batch, tokens: all, ..
        } = *dims;
        (0..batch).step_by(items).flat_map(move |first| {
            (0..all).step_by(tokens).map(move |start| Self {
                batch: (first, (first + items).min(batch)),
                tokens: (start, (start + tokens).min(all)),
            })
        })
    }

    pub(crate) fn dims(&self, whole: &Dims) -> Dims {
        Dims {
            batch: self.batch.1 - self.batch.0,
            tokens: self.tokens.1 - self.tokens.0,
            ..*whole
        }
    }

    /// The rows of a `[B, T, width]` array that belong to this piece, one slice a batch item.
    fn rows<'a, T>(
        &self,
        array: &'a [T],
        whole: &Dims,
        width: usize,
    ) -> impl Iterator<Item = &'a [T]> + use<'a, T> {
        let (first, end) = self.tokens;
        let tokens = whole.tokens;
        (self.batch.0..self.batch.1)
            .map(move |b| &array[(b * tokens + first) * width..(b * tokens + end) * width])
    }

    /// Tokens of item `b` inside the piece.
    pub(crate) fn length(&self, length: usize) -> u32 {
        (length.clamp(self.tokens.0, self.tokens.1) - self.tokens.0) as u32
    }
}

/// Rows of an array in the element type of the device.
pub(crate) fn floats(
    piece: &Piece,
    array: &[f32],
    whole: &Dims,
    width: usize,
    float: Float,
) -> Vec<u8> {
    let rows = piece.rows(array, whole, width);
    match float {
        Float::F32 => rows
            .flat_map(|row| bytemuck::cast_slice::<f32, u8>(row).iter().copied())
            .collect(),
        Float::F16 => {
            let halves: Vec<f16> = rows
                .flat_map(|row| row.iter().map(|&x| f16::from_f32(x)))
                .collect();
            let mut bytes = bytemuck::cast_slice(&halves).to_vec();
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            bytes
        }
    }
}

/// Values of the device's element type as f32.
pub(crate) fn widened(bytes: &[u8], float: Float) -> Vec<f32> {
    match float {
        Float::F32 => bytemuck::pod_collect_to_vec(bytes),
        Float::F16 => bytemuck::pod_collect_to_vec::<u8, f16>(bytes)
            .into_iter()
            .map(f16::to_f32)
            .collect(),
    }
}

/// Stores a piece's rows back into the whole array.
pub(crate) fn scatter<T: Copy>(
    piece: &Piece,
    rows: &[T],
    into: &mut [T],
    whole: &Dims,
    width: usize,
) {
    let (first, end) = piece.tokens;
    let row = (end - first) * width;
    for (b, source) in (piece.batch.0..piece.batch.1).zip(rows.chunks_exact(row.max(1))) {
        let at = (b * whole.tokens + first) * width;
        into[at..at + row].copy_from_slice(source);
    }
}

/// The decisions that a piece must follow, as `trace` records of (score 0, event).
pub(crate) fn given_events(
    piece: &Piece,
    whole: &Dims,
    schedule: Schedule,
    decisions: &Decisions,
    lengths: impl Fn(usize) -> usize,
    n: &[u32],
) -> Vec<u32> {
    let dims = piece.dims(whole);
    let mut records = vec![0; dims.token_heads() * 2];
    for i in 0..dims.sequences() {
        let (b, h) = (i / dims.heads, i % dims.heads);
        let mut occupancy = Occupancy::of(&dims, Some(n), i);
        for t in 0..piece.length(lengths(piece.batch.0 + b)) as usize {
            let at = whole.token_head(piece.batch.0 + b, piece.tokens.0 + t, h);
            let decision = decisions.get(at);
            records[(i * dims.tokens + t) * 2 + 1] =
                event::follow(schedule, decision, &mut occupancy);
        }
    }
    records
}

/// The `trace` of a call that starts from new states and is to follow `decisions`: pairs of score 0 and event.
pub fn events(dims: &Dims, schedule: Schedule, decisions: &Decisions) -> Vec<u32> {
    let piece = Piece {
        batch: (0, dims.batch),
        tokens: (0, dims.tokens),
    };
    let new = vec![0; dims.sequences() * dims.capacity];
    given_events(&piece, dims, schedule, decisions, |_| dims.tokens, &new)
}

/// Puts scores beside the events of a piece's `trace` records.
pub(crate) fn add_scores(piece: &Piece, whole: &Dims, scores: &[f32], records: &mut [u32]) {
    let dims = piece.dims(whole);
    for (at, record) in records.chunks_exact_mut(2).enumerate() {
        let (i, t) = (at / dims.tokens, at % dims.tokens);
        let (b, h) = (i / dims.heads, i % dims.heads);
        record[0] = scores[whole.token_head(piece.batch.0 + b, piece.tokens.0 + t, h)].to_bits();
    }
}

/// g, β and λ by rank, one record a token and head.
///
/// Under Fenwick λ arrives by level; the position of a token, counted from the tokens `n` in the cache, turns
/// levels into ranks.
pub(crate) fn control(
    piece: &Piece,
    whole: &Dims,
    schedule: Schedule,
    inputs: &Inputs<'_, f32>,
    n: &[u32],
) -> Vec<f32> {
    let dims = piece.dims(whole);
    let k = dims.capacity;
    let mut records = vec![0.0; dims.token_heads() * (k + 2)];
    for i in 0..dims.sequences() {
        let (b, h) = (i / dims.heads, i % dims.heads);
        let mut position = Occupancy::of(&dims, Some(n), i).position;
        for t in 0..dims.tokens {
            let from = whole.token_head(piece.batch.0 + b, piece.tokens.0 + t, h);
            let record = &mut records[dims.token_head(b, t, h) * (k + 2)..][..k + 2];
            record[0] = inputs.g.map_or(0.0, |g| g[from]);
            record[1] = inputs.beta.map_or(1.0, |beta| beta[from]);
            let lambda = &inputs.lambda[from * k..][..k];
            position += 1;
            by_rank(schedule, position, lambda, &mut record[2..]);
        }
    }
    records
}

/// λ by rank from λ by the schedule's own index, after `position` tokens.
fn by_rank(schedule: Schedule, position: u64, lambda: &[f32], ranks: &mut [f32]) {
    if schedule != Schedule::Fenwick {
        ranks.copy_from_slice(lambda);
        return;
    }
    let count = 1 + (position - 1).count_ones() as usize;
    for (rank, out) in ranks.iter_mut().enumerate().take(count) {
        *out = lambda[weight_index(schedule, position, count, count - 1 - rank)];
    }
}

/// The cache of a batch range as `states` and `scalars`: place = time order.
pub(crate) fn cache_to_device(
    dims: &Dims,
    schedule: Schedule,
    cache: &Cache<f32>,
) -> (Vec<f32>, Vec<u32>) {
    let (k, d) = (dims.capacity, dims.state_len());
    let mut states = vec![0.0; dims.states_len()];
    let mut scalars = vec![0; dims.sequences() * (1 + 3 * k)];
    for i in 0..dims.sequences() {
        let record = &mut scalars[i * (1 + 3 * k)..][..1 + 3 * k];
        let mut count = 0;
        for entry in time_order(schedule, k) {
            let from = i * k + entry;
            if cache.n[from] == 0 {
                continue;
            }
            states[(i * k + count) * d..][..d].copy_from_slice(&cache.states[from * d..][..d]);
            record[1 + 3 * count] = cache.n[from];
            record[2 + 3 * count] = cache.info[from].to_bits();
            record[3 + 3 * count] = count as u32;
            count += 1;
        }
        record[0] = count as u32;
    }
    (states, scalars)
}

/// `states` and `scalars` as a cache.
pub(crate) fn cache_from_device(
    dims: &Dims,
    schedule: Schedule,
    states: &[f32],
    scalars: &[u32],
) -> Cache<f32> {
    let (k, d) = (dims.capacity, dims.state_len());
    let mut cache = Cache::new(dims);
    for i in 0..dims.sequences() {
        let record = &scalars[i * (1 + 3 * k)..][..1 + 3 * k];
        for (s, entry) in entries(schedule, record).enumerate() {
            let place = record[3 + 3 * s] as usize;
            cache.n[i * k + entry] = record[1 + 3 * s];
            cache.info[i * k + entry] = f32::from_bits(record[2 + 3 * s]);
            cache.states[(i * k + entry) * d..][..d]
                .copy_from_slice(&states[(i * k + place) * d..][..d]);
        }
    }
    cache
}

/// The entries that the states of one record of `scalars` have in a cache, oldest first.
fn entries(schedule: Schedule, record: &[u32]) -> impl Iterator<Item = usize> + use<> {
    let count = record[0] as usize;
    let position: u64 = (0..count).map(|s| u64::from(record[1 + 3 * s])).sum();
    (0..count).map(move |s| match schedule {
        Schedule::Fenwick => weight_index(schedule, position, count, s),
        _ => s,
    })
}

/// The token counts of one record of `scalars` as a cache has them, `[capacity]`.
pub(crate) fn counts(schedule: Schedule, record: &[u32]) -> Vec<u32> {
    let mut n = vec![0; record.len() / 3];
    for (s, entry) in entries(schedule, record).enumerate() {
        n[entry] = record[1 + 3 * s];
    }
    n
}

/// The cache's entries, oldest first: by age they already are, by level the highest is the oldest.
pub(crate) fn time_order(schedule: Schedule, capacity: usize) -> Box<dyn Iterator<Item = usize>> {
    match schedule {
        Schedule::Fenwick => Box::new((0..capacity).rev()),
        _ => Box::new(0..capacity),
    }
}

/// Stores a piece's `trace` records into the whole trace.
pub(crate) fn trace_from_device(
    piece: &Piece,
    whole: &Dims,
    records: &[u32],
    lengths: impl Fn(usize) -> usize,
    trace: &mut Trace,
) {
    let dims = piece.dims(whole);
    for i in 0..dims.sequences() {
        let (b, h) = (i / dims.heads, i % dims.heads);
        for t in 0..piece.length(lengths(piece.batch.0 + b)) as usize {
            let at = whole.token_head(piece.batch.0 + b, piece.tokens.0 + t, h);
            let (score, event) = (
                f32::from_bits(records[(i * dims.tokens + t) * 2]),
                records[(i * dims.tokens + t) * 2 + 1],
            );
            let (decision, count) = event::read(event);
            trace.score[at] = score;
            trace.non_finite += u64::from(!score.is_finite());
            trace.decisions.set(at, decision);
            trace.count[at] = count as i32;
        }
    }
}
