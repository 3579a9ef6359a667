//! How a model's states open and merge on a text.

use dla_core::Result;
use dla_core::model::{Call, Rows, SLICE, Slices};

use super::states_of;
use crate::scores::Reader;

/// Slices that are read at once.
const UNITS: usize = 4;

/// What one head did on a text.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HeadStates {
    /// The layer, counted from 0.
    pub layer: usize,
    /// The head, counted from 0.
    pub head: usize,
    /// Tokens that were read.
    pub tokens: usize,
    /// Tokens that opened a state.
    pub boundaries: usize,
    /// Merges of two states.
    pub merges: usize,
    /// States at the end.
    pub live: usize,
}

impl HeadStates {
    /// The share of tokens that opened a state.
    pub fn boundary_rate(&self) -> f64 {
        self.boundaries as f64 / self.tokens as f64
    }

    /// Tokens of a state at the end, on average.
    pub fn tokens_per_state(&self) -> f64 {
        self.tokens as f64 / self.live as f64
    }
}

/// Reads `ids`; tells what every head of every layer did.
///
/// # Errors
/// For no ids, a model without states, and those of the reader.
pub fn count(reader: &impl Reader, ids: &[u32]) -> Result<Vec<HeadStates>> {
    let config = reader.config();
    states_of(config, ids)?;
    let heads = config.dims().heads;
    let all = (0..config.layers).flat_map(|layer| (0..heads).map(move |head| (layer, head)));
    let mut counts: Vec<HeadStates> = all
        .map(|(layer, head)| HeadStates {
            layer,
            head,
            ..HeadStates::default()
        })
        .collect();
    let call = Call {
        logits: Rows::None,
        traces: true,
        replay: None,
    };
    let mut sequence = reader.start()?;
    let mut slices = Slices::new(ids, SLICE);
    while let Some(ids) = slices.take(UNITS) {
        let reply = reader.read(&mut sequence, ids, &call)?;
        for (trace, counts) in reply.traces.iter().zip(counts.chunks_mut(heads)) {
            for at in 0..trace.count.len() {
                let decision = trace.decisions.get(at);
                let head = &mut counts[at % heads];
                head.tokens += 1;
                head.boundaries += usize::from(decision.opens);
                head.merges += usize::from(decision.merge_at.is_some());
                head.live = usize::try_from(trace.count[at]).unwrap_or(0);
            }
        }
    }
    Ok(counts)
}
