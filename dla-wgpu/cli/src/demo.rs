//! `dla` without a command: the shipped model goes on with a text, its memory states shown, and answers a question
//! about another one.

use std::time::Instant;

use dla_core::checkpoint::Checkpoint;
use dla_core::model::{Call, Rows};
use dla_core::sample::{Sampler, SamplerOptions};
use dla_core::{Result, Trace};
use serde_json::json;

use crate::args::{Global, Weights};
use crate::report::Report;
use crate::runner::Runner;
use crate::segment;
use crate::segment::reading::Follower;
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
pub fn run(weights: Option<Weights>, global: &Global) -> Result<Report> {
    let files = vec![("models/dla-tiny".to_owned(), WEIGHTS.to_vec())];
    let checkpoint = Checkpoint::from_bytes(CONFIG, files)?;
    let runner = Runner::of(&checkpoint, weights.unwrap_or(Weights::F32), global)?;
    let start = Instant::now();
    let opening = PASSAGE.split("\n\n").next().unwrap_or(PASSAGE);
    let options = SamplerOptions {
        temperature: 0.6,
        top_p: 0.9,
        seed: 4,
        ..SamplerOptions::default()
    };
    let mut follower = Follower::new(&runner)?;
    let mut see = |tokens, traces: &[Trace]| follower.take(tokens, traces);
    let continued = said(&runner, opening, CONTINUED, options, Some(&mut see))?;
    let whole = [opening.as_bytes(), &continued].concat();
    let names = ["dla-tiny".to_owned(), "Genesis, continued".to_owned()];
    let reading = follower.finish(&runner, Text::of_bytes(&whole), names);
    let chosen = reading.most_telling(None, None);
    let haystack = haystack();
    let greedy = SamplerOptions::greedy();
    let found = said(&runner, &haystack, NUMBER.len() + 1, greedy, None)?;
    let found = String::from_utf8_lossy(&found);
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
            "continued": String::from_utf8_lossy(&continued),
            "states": segment::json(&reading, chosen),
            "needle": { "bytes": haystack.len(), "number": NUMBER, "answer": found.trim() },
        }),
    })
}

/// Gets the number of tokens taken in, and what every layer decided on them.
type See<'a> = &'a mut dyn FnMut(usize, &[Trace]) -> Result<()>;

/// What the model says after `prompt`, `most` bytes; `see` gets what is decided on every token, the last one's too.
fn said(
    runner: &Runner,
    prompt: &str,
    most: usize,
    options: SamplerOptions,
    mut see: Option<See<'_>>,
) -> Result<Vec<u8>> {
    let mut sampler = Sampler::new(options)?;
    let mut sequence = runner.start()?;
    let (mut said, mut ids) = (
        Vec::new(),
        prompt.bytes().map(u32::from).collect::<Vec<_>>(),
    );
    for _ in 0..most {
        let next = runner.top(&mut sequence, &ids, sampler.needs(), see.is_some())?;
        if let Some(see) = &mut see {
            see(ids.len(), &next.traces)?;
        }
        let id = sampler.sample(&next.logits.candidates())?;
        sampler.accept(id);
        // The model's tokens are the 256 bytes.
        said.extend(u8::try_from(id));
        ids = vec![id];
    }
    if let Some(see) = &mut see {
        let call = Call {
            logits: Rows::None,
            traces: true,
            replay: None,
        };
        let reply = runner.run(&mut sequence, &ids, &call)?;
        see(ids.len(), &reply.traces)?;
    }
    Ok(said)
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
