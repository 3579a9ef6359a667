//! `dla generate`: text from a model, as it comes.

mod states;
mod text;

use std::time::Instant;

use dla_core::checkpoint::Checkpoint;
use dla_core::file::{self, MAX_TEXT};
use dla_core::model::{Call, Rows};
use dla_core::sample::{Sampler, SamplerOptions};
use dla_core::{Error, Result};
use dla_text::{Stop, Tokenizer};
use serde_json::{Value, json};

use crate::args::{self, Generate, Global};
use crate::report::{self, Report};
use crate::runner::{Next, Runner, Sequence};
use crate::{progress, report::note};
use states::States;
use text::{Ending, Text};

/// Reads model and prompt, generates, tells how it went.
///
/// # Errors
/// When options, model, tokenizer or prompt are refused, or the run fails.
pub fn run(args: &Generate, global: &Global) -> Result<Report> {
    let stop = Stop::new(args.stop.iter().cloned())
        .map_err(|error| error.at("--stop").within("generate"))?;
    let sampler = Sampler::new(options(args)).map_err(|error| args::option(error, "generate"))?;
    let prompt = prompt(args)?;
    let checkpoint = Checkpoint::open(&args.model.model)?;
    let vocabulary = checkpoint.config().vocabulary;
    if args.show_states {
        checkpoint
            .config()
            .require_states("generate", "--show-states")?;
    }
    let tokenizer = Tokenizer::of(&args.model.model, vocabulary)?;
    let prompt = prompt_ids(&tokenizer, &prompt)?;
    if tokenizer.is_bytes() && vocabulary > 256 {
        note("no tokenizer.json: tokens are bytes, and ids from 256 on have no text");
    }
    let runner = Runner::load(&args.model, global)?;
    let mut run = Run {
        sequence: runner.start()?,
        runner: &runner,
        sampler,
        states: args.show_states.then(|| States::new(runner.config())),
        text: Text::new(&tokenizer, &prompt, stop, !global.json),
    };
    let ended = run.generate(&prompt, args.max_tokens)?;
    if run.text.streams() {
        report::piece("\n")?;
        run.tell(&ended, prompt.len());
    }
    Ok(run.report(&ended, prompt.len()))
}

fn options(args: &Generate) -> SamplerOptions {
    SamplerOptions {
        temperature: args.temperature,
        top_k: args.top_k,
        top_p: args.top_p,
        min_p: args.min_p,
        repetition_penalty: args.repetition_penalty,
        repetition_window: args.repetition_window,
        seed: args.seed,
    }
}

/// The prompt's bytes: those of the option or of the file.
fn prompt(args: &Generate) -> Result<Vec<u8>> {
    match (&args.prompt, &args.prompt_file) {
        (Some(text), _) => Ok(text.clone().into_bytes()),
        (None, Some(path)) => file::read_stream("generate", path, MAX_TEXT),
        (None, None) => Ok(Vec::new()),
    }
}

/// The prompt's ids, at least one.
fn prompt_ids(tokenizer: &Tokenizer, prompt: &[u8]) -> Result<Vec<u32>> {
    let ids = tokenizer.encode_bytes(prompt)?;
    if !ids.is_empty() {
        return Ok(ids);
    }
    let start = tokenizer.start().map(|id| vec![id]);
    start.ok_or_else(|| {
        let expected = "some text, for the tokenizer has no token to begin with";
        Error::input("generate", "--prompt", expected, "none")
    })
}

/// One generation.
struct Run<'a> {
    runner: &'a Runner,
    sequence: Sequence,
    sampler: Sampler,
    states: Option<States>,
    text: Text<'a>,
}

/// How a generation ended, and how long it took.
struct Ended {
    ending: Ending,
    /// Seconds that the prompt took.
    prompt_seconds: f64,
    /// Seconds that the tokens took.
    seconds: f64,
}

impl Run<'_> {
    /// At most `most` tokens after `prompt`.
    fn generate(&mut self, prompt: &[u32], most: usize) -> Result<Ended> {
        let start = Instant::now();
        prompt.iter().for_each(|&id| self.sampler.accept(id));
        let next = progress::watched("reading the prompt", || self.read(prompt))?;
        let prompt_seconds = start.elapsed().as_secs_f64();
        let start = Instant::now();
        let ending = self.tokens(next, most)?;
        Ok(Ended {
            ending,
            prompt_seconds,
            seconds: start.elapsed().as_secs_f64(),
        })
    }

    fn tokens(&mut self, mut next: Next, most: usize) -> Result<Ending> {
        loop {
            let id = self.sampler.sample(&next.logits.candidates())?;
            self.sampler.accept(id);
            if let Some(ending) = self.text.push(id)? {
                self.read_last(id)?;
                return Ok(ending);
            }
            if self.text.ids().len() == most {
                self.read_last(id)?;
                self.text.finish()?;
                return Ok(Ending::MaxTokens);
            }
            next = self.read(&[id])?;
        }
    }

    /// Takes `ids` into the model.
    fn read(&mut self, ids: &[u32]) -> Result<Next> {
        let needs = self.sampler.needs();
        let traces = self.states.is_some();
        let next = self.runner.top(&mut self.sequence, ids, needs, traces)?;
        if let Some(states) = &mut self.states {
            states.read(&next.traces);
        }
        Ok(next)
    }

    /// Takes the last token in, after which nothing is drawn: only its states are of interest.
    fn read_last(&mut self, id: u32) -> Result<()> {
        let Some(states) = &mut self.states else {
            return Ok(());
        };
        let call = Call {
            logits: Rows::None,
            replay: None,
        };
        let reply = self.runner.run(&mut self.sequence, &[id], &call, true)?;
        states.read(&reply.traces);
        Ok(())
    }

    /// Tells on stderr what happened beside the text.
    fn tell(&self, ended: &Ended, prompt: usize) {
        if let Some(states) = &self.states {
            report::aside(&states.text(prompt, self.text.pieces()));
        }
        let tokens = self.text.ids().len();
        note(&format!(
            "{tokens} tokens on {} in {:.2} s after {:.2} s for {prompt} of the prompt, \
             {:.0} tokens/s; {}",
            self.runner.name(),
            ended.seconds,
            ended.prompt_seconds,
            tokens as f64 / ended.seconds,
            ended.ending.words()
        ));
    }

    /// The report; its text is on stdout already.
    fn report(&self, ended: &Ended, prompt: usize) -> Report {
        let json = json!({
            "text": self.text.text(),
            "ids": self.text.ids(),
            "prompt_tokens": prompt,
            "ending": ended.ending.word(),
            "stop_string": self.text.stop_string(),
            "backend": self.runner.kind(),
            "seconds": ended.prompt_seconds + ended.seconds,
            "tokens_per_second": self.text.ids().len() as f64 / ended.seconds,
            "states": self.states.as_ref().map_or(Value::Null, States::json),
        });
        Report {
            text: String::new(),
            json,
        }
    }
}
