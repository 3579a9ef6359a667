//! What is wanted of a call, what it gives, and the way back to the host.

use dla_core::model::{Rows, check_finite, check_scores};
use dla_core::{Decisions, Result, Trace};

use crate::Readback;
use crate::nn::{Best, TopK};
use crate::op::event;

/// The id of an entry behind a row's end.
const NO_ID: u32 = u32::MAX;
/// g and β, before λ in a record of control.
pub(super) const GATES: usize = 2;

/// What is wanted of a call.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted<'a> {
    /// The tokens whose logits are read back.
    pub logits: Rows,
    /// How many of each last token's largest logits are read back, at most 64: all that a sampler
    /// needs, in few bytes.
    pub top: usize,
    /// Reads back what every layer measured and decided, 8 bytes a token and head; nothing for softmax attention.
    pub traces: bool,
    /// Reads back how each sequence's last token read its states, 4·(2 + capacity) bytes a layer and head; nothing for
    /// softmax attention.
    pub lambda: bool,
    /// Decisions to follow instead of the schedule's own: by sequence, then by layer, `[1, tokens, heads]`.
    pub replay: Option<&'a [&'a [Decisions]]>,
}

/// What a call gives of one sequence.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Taken {
    /// The logits asked for, `[rows, vocabulary]`.
    pub logits: Vec<f32>,
    /// The largest logits after the last token with their ids, largest first; ties by id.
    pub top: Vec<(u32, f32)>,
    /// What each layer measured and decided, `[1, tokens, heads]`; none unless asked for, and for softmax attention.
    pub traces: Vec<Trace>,
    /// λ of the last token in each layer, as [`Reply`](dla_core::model::Reply) has it; none unless asked for.
    pub lambda: Vec<Vec<f32>>,
}

/// A recorded call whose answers are on their way: submit its encoder, then wait for them.
#[derive(Debug)]
#[must_use]
pub struct Pending {
    pub(super) sequences: usize,
    pub(super) pieces: Vec<Piece>,
}

/// The answers of one piece of a call.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) shape: Shape,
    pub(super) readback: Option<Readback>,
}

/// What lies where in the bytes of a piece.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    /// Tokens that each sequence took in this piece.
    pub(super) lengths: Vec<usize>,
    /// Whether that was its last piece.
    pub(super) ends: Vec<bool>,
    /// Tokens of the piece's rows, T.
    pub(super) tokens: usize,
    pub(super) vocabulary: usize,
    pub(super) heads: usize,
    pub(super) layers: usize,
    /// Which logits were read.
    pub(super) logits: Rows,
    pub(super) top: Option<TopK>,
    /// Bytes of one layer's trace; 0 where none was read.
    pub(super) trace: u64,
    /// Words of a head's record of control: g, β, λ by rank; 0 where none was read.
    pub(super) control: usize,
}

impl Shape {
    /// Rows of logits.
    pub(super) fn rows(&self) -> usize {
        match self.logits {
            Rows::None => 0,
            Rows::Last => self.lengths.len(),
            Rows::All => self.lengths.len() * self.tokens,
        }
    }

    /// Bytes of the logits, of the largest ones, of the traces, of the last tokens' control.
    pub(super) fn bytes(&self) -> [u64; 4] {
        let logits = (self.rows() * self.vocabulary) as u64 * 4;
        let words = self.top.map_or(0, |top| top.row_words());
        let top = (self.lengths.len() * words) as u64 * 4;
        let control = (self.lengths.len() * self.layers) as u64 * self.control_row();
        [logits, top, self.trace * self.layers as u64, control]
    }

    /// Bytes of one token's control in one layer, `[heads]` records.
    pub(super) fn control_row(&self) -> u64 {
        (self.heads * self.control) as u64 * 4
    }

    /// Where the control of sequence `item` in layer `layer` lies, `[layers, batch]` rows behind everything else.
    pub(super) fn control_at(&self, layer: usize, item: usize) -> u64 {
        let [logits, top, traces, _] = self.bytes();
        logits + top + traces + (layer * self.lengths.len() + item) as u64 * self.control_row()
    }
}

impl Pending {
    /// The answers, by sequence, once the submission is done. Never blocks the thread; on native
    /// somebody must poll the device meanwhile ([`Gpu::block_on`](crate::Gpu::block_on) does).
    ///
    /// # Errors
    /// [`Error::is_device`](dla_core::Error::is_device) where the device is lost,
    /// [`Error::is_diverged`](dla_core::Error::is_diverged) for logits or scores that are not finite.
    pub async fn taken(self) -> Result<Vec<Taken>> {
        let mut taken = vec![Taken::default(); self.sequences];
        for piece in self.pieces {
            piece.add_to(&mut taken).await?;
        }
        Ok(taken)
    }
}

impl Piece {
    /// Adds its answers, once they are there.
    pub(super) async fn add_to(self, taken: &mut [Taken]) -> Result<()> {
        match self.readback {
            Some(readback) => self.shape.read(&readback.bytes().await?, taken),
            None => Ok(()),
        }
    }
}

impl Shape {
    /// Adds what the bytes of this piece hold.
    fn read(&self, bytes: &[u8], taken: &mut [Taken]) -> Result<()> {
        let [logits, top, ..] = self.bytes().map(|bytes| bytes as usize);
        let all = bytes;
        let (logits, rest) = bytes.split_at(logits);
        let (top, traces) = rest.split_at(top);
        let words: Vec<u32> = bytemuck::pod_collect_to_vec(top);
        let best = self.top.map_or_else(Vec::new, |top| top.read(&words));
        for (item, taken) in taken.iter_mut().enumerate() {
            let read = self.read_logits(item, logits, taken);
            check_finite("logits", &taken.logits[read..])?;
            if self.ends[item]
                && let Some(best) = best.get(item)
            {
                taken.top = largest(best)?;
            }
            if self.trace > 0 {
                self.read_traces(item, traces, taken);
                for (layer, trace) in taken.traces.iter().enumerate() {
                    check_scores(trace)
                        .map_err(|error| error.within(format!("model, layer {layer}")))?;
                }
            }
            if self.control > 0 && self.ends[item] {
                taken.lambda = self.read_lambda(item, all);
            }
        }
        Ok(())
    }

    /// Adds the logits of sequence `item`; gives where they begin.
    fn read_logits(&self, item: usize, bytes: &[u8], taken: &mut Taken) -> usize {
        let before = taken.logits.len();
        let (first, count) = match self.logits {
            Rows::None => return before,
            Rows::Last if !self.ends[item] || self.lengths[item] == 0 => return before,
            Rows::Last => (item, 1),
            Rows::All => (item * self.tokens, self.lengths[item]),
        };
        let row = self.vocabulary * 4;
        let bytes = &bytes[first * row..][..count * row];
        taken
            .logits
            .extend(bytemuck::pod_collect_to_vec::<u8, f32>(bytes));
        before
    }

    fn read_traces(&self, item: usize, bytes: &[u8], taken: &mut Taken) {
        taken.traces.resize(self.layers, Trace::default());
        for (layer, trace) in taken.traces.iter_mut().enumerate() {
            let bytes = &bytes[layer * self.trace as usize..];
            for t in 0..self.lengths[item] {
                for head in 0..self.heads {
                    let at = ((item * self.heads + head) * self.tokens + t) * 8;
                    let [score, event]: [u32; 2] = bytemuck::pod_read_unaligned(&bytes[at..at + 8]);
                    let (decision, count) = event::read(event);
                    trace.push(f32::from_bits(score), decision, count);
                }
            }
        }
    }

    /// λ of a sequence's last token by layer.
    fn read_lambda(&self, item: usize, bytes: &[u8]) -> Vec<Vec<f32>> {
        let layer = |layer| {
            let at = self.control_at(layer, item) as usize;
            let row = &bytes[at..at + self.control_row() as usize];
            let records = row.chunks_exact(self.control * 4);
            let lambda = records.flat_map(|record| &record[GATES * 4..]);
            bytemuck::pod_collect_to_vec(&lambda.copied().collect::<Vec<u8>>())
        };
        (0..self.layers).map(layer).collect()
    }
}

/// Ids and logits of one row's largest, unless some are not finite.
fn largest(best: &Best) -> Result<Vec<(u32, f32)>> {
    if best.not_numbers > 0 {
        check_finite("logits", &[f32::NAN])?;
    }
    let entries = best.entries.iter().filter(|(_, id)| *id != NO_ID);
    let entries: Vec<_> = entries.map(|&(logit, id)| (id, logit)).collect();
    for (_, logit) in &entries {
        check_finite("logits", &[*logit])?;
    }
    Ok(entries)
}
