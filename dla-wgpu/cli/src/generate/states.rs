//! Where layers and heads opened and merged states while text was read and generated.

use std::fmt;

use dla_core::model::ModelConfig;
use dla_core::{Decision, Schedule, Trace};
use serde_json::{Value, json};

/// Marks of a token, by the share of heads that opened a state.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The states of all layers and heads, followed token by token.
#[derive(Clone, Debug)]
pub(super) struct States {
    schedule: Schedule,
    capacity: usize,
    heads: usize,
    /// By layer and head.
    tallies: Vec<Tally>,
    /// By time, then layer and head.
    events: Vec<Event>,
    tokens: usize,
}

/// What one head of one layer did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Tally {
    boundaries: usize,
    merges: usize,
    /// Tokens of each live state, oldest first.
    n: Vec<usize>,
}

/// A boundary: a token that was unlike the newest state of a head.
#[derive(Clone, Copy, Debug)]
struct Event {
    token: usize,
    /// Of the tallies.
    place: usize,
    score: f32,
    merge_at: Option<usize>,
}

impl Tally {
    fn advance(&mut self, schedule: Schedule, capacity: usize, decision: Decision) {
        if let Some(at) = decision.merge_at.filter(|_| capacity > 1) {
            // Under Fenwick all from there to the newest collapse.
            let end = match schedule {
                Schedule::Fenwick => self.n.len(),
                _ => at + 2,
            };
            let sum = self.n.drain(at..end).sum();
            self.n.insert(at, sum);
            self.merges += 1;
        }
        self.boundaries += usize::from(decision.opens);
        match self.n.last_mut() {
            // A cache of one has no pair to merge: the token joins the only state.
            Some(newest) if !decision.opens || capacity == 1 => *newest += 1,
            _ => self.n.push(1),
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (boundaries, merges, states) = (self.boundaries, self.merges, self.n.len());
        write!(f, "{boundaries:>10}  {merges:>6}  {states:>6} ")?;
        self.n.iter().try_for_each(|n| write!(f, " {n}"))
    }
}

impl States {
    /// Before the first token.
    pub(super) fn new(config: &ModelConfig) -> Self {
        let dims = config.dims();
        Self {
            schedule: config.operator().schedule,
            capacity: dims.capacity,
            heads: dims.heads,
            tallies: vec![Tally::default(); config.layers * dims.heads],
            events: Vec::new(),
            tokens: 0,
        }
    }

    /// Takes in what each layer decided, `[1, tokens, heads]`.
    pub(super) fn read(&mut self, traces: &[Trace]) {
        let tokens = traces.first().map_or(0, |trace| trace.score.len()) / self.heads;
        for t in 0..tokens {
            for (layer, trace) in traces.iter().enumerate() {
                for head in 0..self.heads {
                    let place = layer * self.heads + head;
                    self.decide(place, trace, t * self.heads + head);
                }
            }
            self.tokens += 1;
        }
    }

    /// The decision of one head, at `at` of its layer's trace.
    fn decide(&mut self, place: usize, trace: &Trace, at: usize) {
        let decision = trace.decisions.get(at);
        self.tallies[place].advance(self.schedule, self.capacity, decision);
        if decision.opens {
            self.events.push(Event {
                token: self.tokens,
                place,
                score: trace.score[at],
                merge_at: decision.merge_at,
            });
        }
    }

    /// For machines: every boundary, and what each head holds at the end.
    pub(super) fn json(&self) -> Value {
        let at = |place: usize| (place / self.heads, place % self.heads);
        let events = self.events.iter().map(|event| {
            let (layer, head) = at(event.place);
            json!({
                "token": event.token, "layer": layer, "head": head,
                "score": event.score, "merge_at": event.merge_at,
            })
        });
        let heads = self.tallies.iter().enumerate().map(|(place, tally)| {
            let (layer, head) = at(place);
            json!({
                "layer": layer, "head": head, "boundaries": tally.boundaries,
                "merges": tally.merges, "n": tally.n,
            })
        });
        json!({
            "tokens": self.tokens,
            "boundaries": events.collect::<Vec<_>>(),
            "heads": heads.collect::<Vec<_>>(),
        })
    }

    /// For people: a line for the `prompt` tokens, one for each later token that was a boundary, one
    /// for each head. `pieces` are the texts of the later tokens.
    pub(super) fn text(&self, prompt: usize, pieces: &[String]) -> String {
        let mut told = String::from("states: the share of heads that open one, by token\n");
        let before = self.events.partition_point(|event| event.token < prompt);
        let (events, later) = self.events.split_at(before);
        told += &format!("  prompt {} boundaries in {prompt} tokens\n", events.len());
        for group in later.chunk_by(|a, b| a.token == b.token) {
            let token = group[0].token;
            let piece = pieces.get(token - prompt).map_or("", String::as_str);
            let (bar, merging) = (self.bar(group), merging(group));
            told += &format!("  {token:>6} {bar} {piece:?}{merging}\n");
        }
        told += "  layer head  boundaries  merges  states  tokens of each, oldest first\n";
        for (place, tally) in self.tallies.iter().enumerate() {
            let (layer, head) = (place / self.heads, place % self.heads);
            told += &format!("  {layer:>5} {head:>4}  {tally}\n");
        }
        told
    }

    /// The share of heads with a boundary at a token.
    fn bar(&self, events: &[Event]) -> String {
        let step = (events.len() * BARS.len()).div_ceil(self.tallies.len());
        let bar = BARS[step.clamp(1, BARS.len()) - 1];
        format!("{bar} {} of {}", events.len(), self.tallies.len())
    }
}

/// How many of the boundaries found their cache full.
fn merging(events: &[Event]) -> String {
    match events
        .iter()
        .filter(|event| event.merge_at.is_some())
        .count()
    {
        0 => String::new(),
        merges => format!(", {merges} merge a pair"),
    }
}

#[cfg(test)]
mod tests {
    use super::Tally;
    use dla_core::dla::{recurrent, schedule};
    use dla_core::{Backbone, Config, Dims, Inputs, Schedule};

    fn dims(capacity: usize, tokens: usize) -> Dims {
        Dims {
            batch: 1,
            tokens,
            heads: 1,
            groups: 1,
            key_dim: 1,
            value_dim: 2,
            capacity,
        }
    }

    /// Holds the tally of `tokens` tokens to the cache that the operator leaves.
    fn check(schedule: Schedule, capacity: usize, tokens: usize) {
        let dims = dims(capacity, tokens);
        let config = Config {
            schedule,
            ..Config::new(Backbone::Plain)
        };
        let v: Vec<f32> = (0..2 * tokens)
            .map(|i| (i * i * 7 % 11) as f32 - 5.0)
            .collect();
        let (ones, lambda) = (vec![1.0; tokens], vec![1.0; tokens * capacity]);
        let tau: &[f32] = if schedule == Schedule::Dynamic {
            &[0.9]
        } else {
            &[]
        };
        let inputs = Inputs {
            q: &ones,
            k: &ones,
            v: &v,
            g: None,
            beta: None,
            lambda: &lambda,
            tau,
            lengths: None,
            replay: None,
        };
        let output = recurrent::forward(&dims, &config, &inputs, None).expect("a call");
        let mut tally = Tally::default();
        (0..tokens).for_each(|t| tally.advance(schedule, capacity, output.trace.decisions.get(t)));
        // Oldest first; by level under Fenwick, the highest the oldest.
        let mut n: Vec<usize> = output.cache.n.iter().map(|&n| n as usize).collect();
        if schedule == Schedule::Fenwick {
            n.reverse();
        }
        n.retain(|&n| n > 0);
        assert_eq!(tally.n, n, "{schedule:?}, capacity {capacity}");
        let boundaries = output.trace.decisions.boundary.iter();
        assert_eq!(tally.boundaries, boundaries.filter(|&&b| b == 1).count());
    }

    #[test]
    fn the_tally_is_the_cache() {
        for capacity in [1, 2, 3, 8] {
            check(Schedule::Dynamic, capacity, 50);
            check(Schedule::Fixed { block: 3 }, capacity, 50);
            check(Schedule::Single, capacity, 50);
        }
        for tokens in [1, 2, 3, 7, 8, 50] {
            check(Schedule::Fenwick, schedule::levels(tokens as u64), tokens);
        }
    }
}
