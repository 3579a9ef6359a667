//! `dla` without a command: the shipped model goes on with a text, its memory states shown, and answers a question
//! about another one.

use std::time::Instant;

use dla_core::Result;
use dla_core::checkpoint::Checkpoint;
use dla_core::sample::{Sampler, SamplerOptions};
use dla_text::Tokenizer;
use serde_json::json;

use crate::args::{Global, Weights};
use crate::report::Report;
use crate::runner::Runner;
use crate::segment;
use crate::segment::reading::Reading;
use crate::segment::text::Text;
use crate::style::Style;

/// `models/dla-tiny`, which the program carries with it.
const CONFIG: &str = include_str!("../../../models/dla-tiny/config.json");
/// Its weights.
const WEIGHTS: &[u8] = include_bytes!("../../../models/dla-tiny/model.safetensors");
/// Genesis 1 and Psalm 23 (King James Version), Macbeth IV.1 and V.5: public domain.
const PASSAGE: &str = include_str!("../assets/passage.txt");

/// Bytes that the model adds to the passage's first paragraph.
const CONTINUED: usize = 260;
/// What the needle in the haystack says.
const NUMBER: &str = "7319408";
/// What the question asks for.
const KEY: &str = "quiet-harbor";

/// Continues a text, shows its states, asks for a needle.
///
/// # Errors
/// When no backend can be opened or the run fails.
pub fn run(global: &Global) -> Result<Report> {
    let files = vec![("models/dla-tiny".to_owned(), WEIGHTS.to_vec())];
    let checkpoint = Checkpoint::from_bytes(CONFIG, files)?;
    let runner = Runner::of(&checkpoint, Weights::F32, global)?;
    let start = Instant::now();
    let opening = PASSAGE.split("\n\n").next().unwrap_or(PASSAGE);
    let options = SamplerOptions {
        temperature: 0.6,
        top_p: 0.9,
        seed: 4,
        ..SamplerOptions::default()
    };
    let continued = answer(&runner, opening, CONTINUED, options)?;
    let whole = format!("{opening}{continued}");
    let names = ["dla-tiny".as_ref(), "Genesis, continued".as_ref()];
    let reading = Reading::new(&runner, Text::of_bytes(whole.as_bytes()), names)?;
    let chosen = reading.most_telling(None, None);
    let haystack = haystack();
    let found = answer(
        &runner,
        &haystack,
        NUMBER.len() + 1,
        SamplerOptions::greedy(),
    )?;
    let seconds = start.elapsed().as_secs_f64();
    let style = Style::of_stdout();
    let story = &reading.stories[chosen];
    let text = format!(
        "{}\n\n{}\n\n{}\n{}\n\n  {} bytes of haystack, among them:\n    {}\n  {}\n    {}\n\n{}",
        style.heading(&format!(
            "dla-tiny goes on with Genesis, by the states of layer {}, head {}",
            story.layer, story.head
        )),
        segment::passage(&reading, chosen, style),
        segment::states(&reading, chosen, style),
        style.heading("A needle in a haystack"),
        haystack.len(),
        needle(),
        question(),
        style.state(1, found.trim()),
        style.faint(&format!(
            "on {} in {seconds:.1} s. `dla generate` and `dla segment` do this for any model and text.",
            runner.name()
        )),
    );
    Ok(Report {
        text,
        json: json!({
            "device": runner.name(),
            "seconds": seconds,
            "opening": opening,
            "continued": continued,
            "states": segment::json(&reading, chosen),
            "needle": { "bytes": haystack.len(), "number": NUMBER, "answer": found.trim() },
        }),
    })
}

/// What the model says after `prompt`, at most `most` bytes.
fn answer(runner: &Runner, prompt: &str, most: usize, options: SamplerOptions) -> Result<String> {
    let tokenizer = Tokenizer::bytes();
    let mut sampler = Sampler::new(options)?;
    let mut sequence = runner.start()?;
    let mut next = runner.top(&mut sequence, &tokenizer.encode(prompt)?, sampler.needs())?;
    let mut decoder = tokenizer.decoder(&[]);
    let mut said = String::new();
    for _ in 0..most {
        let id = sampler.sample(&next.logits.candidates())?;
        sampler.accept(id);
        said += &decoder.push(id);
        next = runner.top(&mut sequence, &[id], sampler.needs())?;
    }
    Ok(said + &decoder.finish())
}

fn needle() -> String {
    format!("One of the special magic numbers for {KEY} is: {NUMBER}.")
}

fn question() -> String {
    format!("What are all the special magic numbers for {KEY} mentioned in the provided text?")
}

/// The passage with a needle in its middle and a question behind it, as the model learned to read them.
fn haystack() -> String {
    let words: Vec<_> = PASSAGE.split_whitespace().collect();
    let (before, after) = words.split_at(words.len() / 2);
    format!(
        "Some special magic numbers are hidden within the following text. Make sure to memorize it. I will quiz you \
         about the numbers afterwards.\n{} {} {}\n{} The special magic numbers for {KEY} mentioned in the provided \
         text are",
        before.join(" "),
        needle(),
        after.join(" "),
        question()
    )
}
