//! `dla generate`: text from a model, as it comes.

mod states;
mod text;

use std::time::Instant;

use dla_core::file::{self, MAX_TEXT};
use dla_core::model::{Call, Rows};
use dla_core::sample::{Sampler, SamplerOptions};
use dla_core::{Error, Result};
use dla_text::{Stop, Tokenizer};
use serde_json::{Value, json};

use crate::args::{self, Generate, Global};
use crate::paced::Paced;
use crate::progress::{Progress, Unit};
use crate::report::{self, Report, note};
use crate::runner::{self, Next, Runner, Sequence};
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
    let checkpoint = runner::open(&args.model.model)?;
    let vocabulary = checkpoint.config().vocabulary;
    if args.show_states {
        checkpoint
            .config()
            .require_states("generate", "--show-states")?;
    }
    let tokenizer = Tokenizer::of(&args.model.model, checkpoint.config())?;
    let prompt = prompt_ids(&tokenizer, &prompt, args)?;
    if tokenizer.is_bytes() && vocabulary > 256 {
        note("no tokenizer.json: tokens are bytes, and ids from 256 on have no text");
    }
    let most = Most::of(args.max_tokens, &tokenizer);
    let runner = Runner::of(&checkpoint, args.model.weights, global)?;
    let mut run = Run {
        sequence: runner.start()?,
        runner: &runner,
        sampler,
        states: args.show_states.then(|| States::new(runner.config())),
        text: Text::new(&tokenizer, &prompt, stop, !global.json),
    };
    let ended = run.generate(&prompt, most)?;
    if run.text.streams() {
        report::piece("\n")?;
        run.tell(&ended, prompt.len());
    }
    if let Some(line) = run.text.unknown() {
        note(&line);
    }
    Ok(run.report(&ended, prompt.len()))
}

/// How many tokens are generated.
#[derive(Clone, Copy, Debug)]
enum Most {
    /// As many as were asked for.
    Asked(usize),
    /// Until the text ends.
    Endless,
    /// [`Most::DEFAULT`], for nothing ends the text.
    Default,
}

impl Most {
    const DEFAULT: usize = 256;

    fn of(asked: Option<usize>, tokenizer: &Tokenizer) -> Self {
        match asked {
            Some(most) => Self::Asked(most),
            None if tokenizer.ends().is_empty() => Self::Default,
            None => Self::Endless,
        }
    }

    fn reached(self, tokens: usize) -> bool {
        match self {
            Self::Asked(most) => tokens >= most,
            Self::Endless => false,
            Self::Default => tokens >= Self::DEFAULT,
        }
    }

    fn ending(self) -> Ending {
        match self {
            Self::Default => Ending::Default,
            _ => Ending::MaxTokens,
        }
    }
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
fn prompt_ids(tokenizer: &Tokenizer, prompt: &[u8], args: &Generate) -> Result<Vec<u32>> {
    let ids = tokenizer.encode_bytes(prompt)?;
    if !ids.is_empty() {
        return Ok(ids);
    }
    let start = tokenizer.start().map(|id| vec![id]);
    start.ok_or_else(|| {
        let option = match args.prompt {
            Some(_) => "--prompt",
            None => "--prompt-file",
        };
        let expected = "some text, for the tokenizer has no token to begin with";
        Error::input("generate", option, expected, "none")
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
    fn generate(&mut self, prompt: &[u32], most: Most) -> Result<Ended> {
        let start = Instant::now();
        prompt.iter().for_each(|&id| self.sampler.accept(id));
        let next = self.read_prompt(prompt)?;
        let prompt_seconds = start.elapsed().as_secs_f64();
        let start = Instant::now();
        let ending = self.tokens(next, most)?;
        Ok(Ended {
            ending,
            prompt_seconds,
            seconds: start.elapsed().as_secs_f64(),
        })
    }

    fn tokens(&mut self, mut next: Next, most: Most) -> Result<Ending> {
        loop {
            let id = self.sampler.sample(&next.logits.candidates())?;
            self.sampler.accept(id);
            if let Some(ending) = self.text.push(id)? {
                self.read_last(id)?;
                return Ok(ending);
            }
            if most.reached(self.text.ids().len()) {
                self.read_last(id)?;
                self.text.finish()?;
                return Ok(most.ending());
            }
            next = self.read(&[id])?;
        }
    }

    /// Takes `prompt`, at least one token, into the model.
    fn read_prompt(&mut self, prompt: &[u32]) -> Result<Next> {
        let progress = Progress::new("reading the prompt", Unit::Tokens, prompt.len());
        let mut slices = Paced::new(self.runner.slices(prompt));
        let mut last = prompt;
        while let Some(slice) = slices.next() {
            last = slice;
            if !slices.is_empty() {
                self.take(slice)?;
                progress.advance(slice.len());
            }
        }
        self.read(last)
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
        match self.states {
            Some(_) => self.take(&[id]),
            None => Ok(()),
        }
    }

    /// Takes `ids` into the model, after which nothing is drawn.
    fn take(&mut self, ids: &[u32]) -> Result<()> {
        let call = Call {
            logits: Rows::None,
            traces: self.states.is_some(),
            replay: None,
        };
        let reply = self.runner.run(&mut self.sequence, ids, &call)?;
        if let Some(states) = &mut self.states {
            states.read(&reply.traces);
        }
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
