//! What every layer and head of a model made of a text.

use std::path::Path;

use dla_core::model::{Call, Rows};
use dla_core::trace::ledger::{Entry, Event, Ledger, LiveState};
use dla_core::{Result, Trace};

use super::text::Text;
use crate::inspect;
use crate::paced::Paced;
use crate::progress::{Progress, Unit};
use crate::runner::Runner;

/// A text as all heads of a model segment it.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The model directory's name.
    pub model: String,
    /// The text file's name.
    pub file: String,
    /// The text.
    pub text: Text,
    /// Layers of the model.
    pub layers: usize,
    /// Heads of each layer.
    pub heads: usize,
    /// States that each head may keep.
    pub capacity: usize,
    /// The schedule's word.
    pub schedule: &'static str,
    /// What ran the model, as `--backend` spells it.
    pub backend: &'static str,
    /// `[layers, heads]`.
    pub stories: Vec<Story>,
}

/// What one head did with the text.
#[derive(Clone, Debug, Default)]
pub struct Story {
    /// Its layer.
    pub layer: usize,
    /// Its number in the layer.
    pub head: usize,
    /// Its threshold, where its schedule has one.
    pub tau: Option<f32>,
    /// The score of each token.
    pub scores: Vec<f32>,
    /// The tokens that opened a state, in order: the state that token opens is named by its index here.
    pub opened: Vec<u32>,
    /// The merges, in order.
    pub merges: Vec<Merge>,
    /// The states at the end, oldest first.
    pub states: Vec<LiveState>,
}

/// Two neighbouring states became one, before the token was written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Merge {
    /// The token.
    pub token: u32,
    /// Time-order index of the older state.
    pub at: usize,
    /// Names of the older and the younger state.
    pub ids: [u64; 2],
    /// Their tokens.
    pub n: [u32; 2],
    /// Information per token of both together.
    pub density: f32,
}

impl Reading {
    /// Runs a model over the text; `paths` are the model directory's and the text file's.
    ///
    /// # Errors
    /// What the model refuses, and softmax attention, which has no states.
    pub fn new(runner: &Runner, text: Text, paths: [&Path; 2]) -> Result<Self> {
        let mut follower = Follower::new(runner)?;
        let mut sequence = runner.start()?;
        let call = Call {
            logits: Rows::None,
            traces: true,
            replay: None,
        };
        let progress = Progress::new("reading the text", Unit::Tokens, text.ids.len());
        for slice in Paced::new(runner.slices(&text.ids)) {
            let reply = runner.run(&mut sequence, slice, &call)?;
            follower.take(slice.len(), &reply.traces)?;
            progress.advance(slice.len());
        }
        Ok(follower.finish(runner, text, paths.map(name)))
    }

    /// The index in `stories` of the head that tells most, among those of `layer` or with number `head`
    /// where these are given; the first one where none tells anything.
    pub fn most_telling(&self, layer: Option<usize>, head: Option<usize>) -> usize {
        let mut best = None;
        for (i, story) in self.stories.iter().enumerate() {
            let fits = |wanted: Option<usize>, got| wanted.is_none_or(|wanted| wanted == got);
            if fits(layer, story.layer) && fits(head, story.head) {
                let telling = story.telling();
                if best.is_none_or(|(_, most)| telling > most) {
                    best = Some((i, telling));
                }
            }
        }
        best.map_or(0, |(i, _)| i)
    }
}

/// A reading on its way: follows what a run decides.
#[derive(Debug)]
pub struct Follower {
    heads: usize,
    /// By layer.
    ledgers: Vec<Ledger>,
    stories: Vec<Story>,
}

impl Follower {
    /// Before the first token of a runner's model.
    ///
    /// # Errors
    /// For softmax attention, which has no states.
    pub fn new(runner: &Runner) -> Result<Self> {
        let config = runner.config();
        config.require_states("segment", "--model")?;
        let (dims, schedule) = (config.dims(), config.operator().schedule);
        let heads = dims.heads;
        let stories = (0..config.layers * heads).map(|i| Story::new(runner, i / heads, i % heads));
        Ok(Self {
            heads,
            ledgers: vec![Ledger::new(dims, schedule)?; config.layers],
            stories: stories.collect(),
        })
    }

    /// Takes in what every layer decided on the `tokens` tokens that follow.
    ///
    /// # Errors
    /// For decisions that no run could have made.
    pub fn take(&mut self, tokens: usize, traces: &[Trace]) -> Result<()> {
        let stories = self.stories.chunks_exact_mut(self.heads);
        for ((ledger, stories), trace) in self.ledgers.iter_mut().zip(stories).zip(traces) {
            let note = |entry: &Entry| stories[entry.head].note(entry);
            ledger.take(tokens, &trace.score, &trace.decisions, None, note)?;
        }
        Ok(())
    }

    /// The reading of `text`, all of whose tokens were taken in; `names` are the model's and the text's.
    pub fn finish(mut self, runner: &Runner, text: Text, [model, file]: [String; 2]) -> Reading {
        for story in &mut self.stories {
            story.states = self.ledgers[story.layer].states(0, story.head).to_vec();
        }
        let config = runner.config();
        Reading {
            model,
            file,
            text,
            layers: config.layers,
            heads: self.heads,
            capacity: config.dims().capacity,
            schedule: inspect::schedule(config.operator().schedule),
            backend: runner.kind(),
            stories: self.stories,
        }
    }
}

impl Story {
    fn new(runner: &Runner, layer: usize, head: usize) -> Self {
        Self {
            layer,
            head,
            tau: runner.tau(layer).get(head).copied(),
            ..Self::default()
        }
    }

    fn note(&mut self, entry: &Entry) {
        match entry.event {
            Event::Merged { at, older, newer } => self.merges.push(Merge {
                token: entry.token as u32,
                at,
                ids: [older.id, newer.id],
                n: [older.n, newer.n],
                density: older.merged(&newer).density(),
            }),
            Event::Opened { score, .. } => {
                self.opened.push(entry.token as u32);
                self.scores.push(score);
            }
            Event::Joined { score, .. } => self.scores.push(score),
        }
    }

    /// The share of tokens that opened a state.
    pub fn rate(&self) -> f64 {
        self.opened.len() as f64 / self.scores.len().max(1) as f64
    }

    /// The mean of the finite scores; 0 where there is none.
    pub fn mean_score(&self) -> f64 {
        let finite = self.scores.iter().filter(|score| score.is_finite());
        let (sum, count) = finite.fold((0.0, 0u32), |(sum, count), &score| {
            (sum + f64::from(score), count + 1)
        });
        sum / f64::from(count.max(1))
    }

    /// Scores that are not finite.
    pub fn non_finite(&self) -> usize {
        self.scores
            .iter()
            .filter(|score| !score.is_finite())
            .count()
    }

    /// How much the segmentation tells: the entropy of the states' shares of the text, times the share
    /// of tokens that opened none. One state tells nothing, and neither do boundaries everywhere.
    pub fn telling(&self) -> f64 {
        let tokens = self.scores.len().max(1) as f64;
        let shares = self.states.iter().map(|state| f64::from(state.n) / tokens);
        let entropy: f64 = shares.map(|share| -share * share.ln()).sum();
        entropy * (1.0 - self.rate())
    }

    /// The index in `states` of the state that holds a token at the end.
    pub fn state_of(&self, token: usize) -> usize {
        let after = self
            .states
            .partition_point(|state| state.start <= token as u64);
        after.saturating_sub(1)
    }
}

/// The last part of a path, `.` and `..` followed.
fn name(path: &Path) -> String {
    let full = path.canonicalize();
    let last = full.as_deref().unwrap_or(path).file_name();
    last.unwrap_or(path.as_os_str())
        .to_string_lossy()
        .into_owned()
}
