//! What one head did with the text: where it opened states, which it merged, what it kept.

use std::ops::Range;

use dla_core::{Dims, Output};
use serde::Serialize;

/// One head's decisions, told in words instead of tokens.
#[derive(Clone, Debug, Serialize)]
pub struct Story {
    /// The head's name.
    pub name: &'static str,
    /// Its threshold.
    pub tau: f32,
    /// The score of each word.
    pub scores: Vec<f32>,
    /// The words that opened a state, in order.
    pub openings: Vec<Opening>,
    /// The states at the end, oldest first; together they cover the text.
    pub states: Vec<State>,
}

/// A word that opened a state.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Opening {
    /// Its place in the text.
    pub word: usize,
    /// Its score.
    pub score: f32,
    /// The older of the two neighbours that merged to make room, by age from the oldest.
    pub merged: Option<usize>,
}

/// A state at the end of the text.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct State {
    /// The words that it holds.
    pub words: Range<usize>,
    /// Information per token, Ī / n: how unlike each other its words are.
    pub density: f32,
}

impl Story {
    /// The story of head `h` of a batch of one.
    pub fn new(name: &'static str, tau: f32, dims: &Dims, output: &Output<f32>, h: usize) -> Self {
        let at = |t| dims.token_head(0, t, h);
        let trace = &output.trace;
        let opens = |&t: &usize| trace.decisions.boundary[at(t)] == 1;
        let openings = (0..dims.tokens).filter(opens).map(|word| Opening {
            word,
            score: trace.score[at(word)],
            merged: usize::try_from(trace.decisions.merge_at[at(word)]).ok(),
        });
        let openings: Vec<_> = openings.collect();
        let info = &output.cache.info[h * dims.capacity..];
        let spans = spans(&openings, dims.tokens).into_iter().zip(info);
        Self {
            name,
            tau,
            scores: (0..dims.tokens).map(|t| trace.score[at(t)]).collect(),
            states: spans
                .map(|(words, info)| State {
                    density: info / words.len() as f32,
                    words,
                })
                .collect(),
            openings,
        }
    }

    /// The state that holds a word at the end.
    pub fn state_of(&self, word: usize) -> usize {
        self.states
            .iter()
            .position(|state| state.words.contains(&word))
            .unwrap_or_default()
    }

    /// Whether the state that an opening began still begins there at the end.
    pub fn survives(&self, opening: &Opening) -> bool {
        self.states
            .iter()
            .any(|state| state.words.start == opening.word)
    }

    /// The opening at a word, if it is one.
    pub fn opening_at(&self, word: usize) -> Option<&Opening> {
        self.openings.iter().find(|opening| opening.word == word)
    }
}

/// The spans of words that the states hold after all openings and merges.
fn spans(openings: &[Opening], words: usize) -> Vec<Range<usize>> {
    let mut starts = Vec::new();
    for opening in openings {
        if let Some(older) = opening.merged {
            starts.remove(older + 1);
        }
        starts.push(opening.word);
    }
    let ends = starts.iter().skip(1).copied().chain([words]);
    starts
        .iter()
        .zip(ends)
        .map(|(&start, end)| start..end)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Opening, spans};

    #[test]
    fn a_merge_joins_neighbours() {
        let opening = |word, merged| Opening {
            word,
            score: 1.0,
            merged,
        };
        let openings = [
            opening(0, None),
            opening(3, None),
            opening(5, Some(0)),
            opening(9, Some(1)),
        ];
        assert_eq!(spans(&openings[..2], 4), [0..3, 3..4]);
        assert_eq!(spans(&openings[..3], 8), [0..5, 5..8]);
        assert_eq!(spans(&openings[..2], 3), [0..3, 3..3]);
    }
}
