//! `dla` without a command: a short text, coloured by the memory state that holds each word.
//!
//! Until a trained model ships, the keys and values come from the words' spelling ([`features`]); the
//! operator that reads them is the real one, on the backend that the user chose.

pub mod features;
pub mod picture;
pub mod story;

use dla_core::dla::gate::Gate;
use dla_core::{Backbone, Config, Dims, Inputs, Output, Result, Schedule};
use serde_json::json;

use crate::args::Global;
use crate::backend::{Call, Engine};
use crate::report::Report;
use crate::style::Style;
use features::WIDTH;
use story::Story;

/// Genesis 1 and Psalm 23 (King James Version), Macbeth IV.1 and V.5: public domain.
const PASSAGE: &str = include_str!("../assets/passage.txt");

/// States that each head may keep.
const CAPACITY: usize = 5;

/// What makes the two heads differ.
#[derive(Debug)]
struct Head {
    name: &'static str,
    /// Share of the running mean that each word keeps.
    memory: f32,
    /// Log decay of every state at each word.
    g: f32,
    /// The score at which a state opens.
    tau: f32,
}

/// One head that sees whole scenes, one that sees phrases.
const HEADS: [Head; 2] = [
    Head {
        name: "slow",
        memory: 0.85,
        g: -0.05,
        tau: 0.79,
    },
    Head {
        name: "quick",
        memory: 0.5,
        g: -0.1,
        tau: 1.2,
    },
];

/// Reads the passage and draws what the two heads made of it.
///
/// # Errors
/// When no backend can be opened or the run fails.
pub fn run(global: &Global) -> Result<Report> {
    let mut engine = Engine::open(global)?;
    let reading = Reading::new(&mut engine)?;
    Ok(Report {
        text: picture::draw(&reading, Style::of_stdout()),
        json: reading.json(),
    })
}

/// What the operator made of the passage.
#[derive(Debug)]
pub struct Reading {
    /// The words, one token each.
    pub words: Vec<&'static str>,
    /// The device that ran.
    pub device: String,
    /// One story for each head.
    pub stories: Vec<Story>,
    /// The largest difference between the states read together, all weights 1, and a single state.
    pub single_state_difference: f32,
}

impl Reading {
    fn new(engine: &mut Engine) -> Result<Self> {
        let words = features::words(PASSAGE);
        let arrays = Arrays::new(&words);
        let dynamic = arrays.forward(engine, Schedule::Dynamic)?;
        let single = arrays.forward(&mut Engine::Cpu, Schedule::Single)?;
        let difference = dynamic.o.iter().zip(&single.o).map(|(a, b)| (a - b).abs());
        let stories = HEADS
            .iter()
            .enumerate()
            .map(|(h, head)| Story::new(head.name, head.tau, &arrays.dims, &dynamic, h));
        Ok(Self {
            device: engine.name(),
            stories: stories.collect(),
            single_state_difference: difference.fold(0.0, f32::max),
            words,
        })
    }

    fn json(&self) -> serde_json::Value {
        json!({
            "device": self.device,
            "words": self.words.iter().map(|word| word.trim_end()).collect::<Vec<_>>(),
            "capacity": CAPACITY,
            "heads": self.stories,
            "single_state_difference": self.single_state_difference,
        })
    }
}

/// The operator's arrays for the passage.
struct Arrays {
    dims: Dims,
    k: Vec<f32>,
    v: Vec<f32>,
    g: Vec<f32>,
    lambda: Vec<f32>,
}

impl Arrays {
    fn new(words: &[&str]) -> Self {
        let (heads, tokens) = (HEADS.len(), words.len());
        let dims = Dims {
            batch: 1,
            tokens,
            heads,
            groups: heads,
            key_dim: WIDTH,
            value_dim: WIDTH,
            capacity: CAPACITY,
        };
        let means = |seed| {
            HEADS
                .each_ref()
                .map(|head| features::running_mean(words, head.memory, seed))
        };
        Self {
            dims,
            k: by_token(&means(1)),
            v: by_token(&means(2)),
            g: HEADS.each_ref().map(|head| head.g).repeat(tokens),
            lambda: vec![1.0; dims.lambda_len()],
        }
    }

    fn forward(&self, engine: &mut Engine, schedule: Schedule) -> Result<Output<f32>> {
        let config = Config {
            schedule,
            ..Config::new(Backbone::Decay)
        };
        let tau = HEADS.each_ref().map(|head| head.tau);
        let inputs = Inputs {
            q: &self.k,
            k: &self.k,
            v: &self.v,
            g: Some(&self.g),
            beta: None,
            lambda: &self.lambda,
            tau: if schedule == Schedule::Dynamic {
                &tau
            } else {
                &[]
            },
            lengths: None,
            replay: None,
        };
        engine.forward(&Call {
            dims: &self.dims,
            config: &config,
            inputs: &inputs,
            cache: None,
            gate: Gate::default(),
            chunk: None,
        })
    }
}

/// Heads' rows `[T, WIDTH]` side by side as `[T, H, WIDTH]`.
fn by_token(heads: &[Vec<f32>]) -> Vec<f32> {
    let tokens = heads.first().map_or(0, |rows| rows.len() / WIDTH);
    let rows = (0..tokens).flat_map(|t| heads.iter().map(move |rows| &rows[t * WIDTH..][..WIDTH]));
    rows.flatten().copied().collect()
}
