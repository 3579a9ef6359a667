//! `dla logits`: a model's logits of token ids from a file.

use std::path::Path;
use std::time::Instant;

use dla_core::model::{Call, Rows};
use dla_core::{Decisions, Error, Result};
use serde_json::json;

use crate::args::{Global, Logits};
use crate::report::Report;
use crate::runner::Runner;
use crate::tensors::{TensorFile, TensorWriter};
use crate::{atomic, decisions, progress};

/// The most sequences of a file: their number alone takes memory, even of sequences without tokens.
const MAX_BATCH: usize = 1 << 16;

/// Reads a model and token ids, runs each sequence, writes the logits.
///
/// # Errors
/// When model or ids are refused, the run fails or the output cannot be written; no output appears then.
pub fn run(args: &Logits, global: &Global) -> Result<Report> {
    atomic::check(&args.output)?;
    args.decisions.as_deref().map_or(Ok(()), atomic::check)?;
    if args.decisions.as_ref() == Some(&args.output) {
        let (expected, got) = ("another file than --output", args.output.display());
        return Err(Error::input("logits", "--decisions", expected, got));
    }
    let runner = Runner::load(&args.model, global)?;
    for (option, given) in [("--decisions", &args.decisions), ("--replay", &args.replay)] {
        given
            .as_ref()
            .map_or(Ok(()), |_| runner.config().require_states("logits", option))?;
    }
    let ids = Ids::read(&args.ids, runner.config().vocabulary)?;
    let prefill = prefill(args.prefill, ids.tokens)?;
    let shape = decisions::Shape::new(runner.config(), ids.batch, ids.tokens);
    let replay = args.replay.as_deref();
    let replay = replay.map(|path| shape.read(path)).transpose()?;
    let start = Instant::now();
    let done = progress::watched("running the model", || {
        let wanted = args.decisions.is_some();
        sequences(&runner, &ids, prefill, replay.as_deref(), wanted)
    })?;
    let seconds = start.elapsed().as_secs_f64();
    let sizes = [ids.batch, ids.tokens, runner.config().vocabulary];
    let mut file = TensorWriter::default();
    file.tensor("logits", &sizes, &done.logits);
    file.write(&args.output)?;
    if let Some(path) = &args.decisions {
        shape.write(path, &done.decisions)?;
    }
    Ok(told(args, &runner, sizes, prefill, seconds))
}

/// The tokens that are taken at once.
fn prefill(asked: Option<usize>, tokens: usize) -> Result<usize> {
    match asked {
        Some(prefill) if prefill > tokens => {
            let expected = format!("at most the {tokens} tokens of input_ids");
            Err(Error::input("logits", "--prefill", expected, prefill))
        }
        asked => Ok(asked.unwrap_or(tokens)),
    }
}

/// The token ids of a file.
struct Ids {
    batch: usize,
    tokens: usize,
    /// `[batch, tokens]`.
    ids: Vec<u32>,
}

impl Ids {
    fn read(path: &Path, vocabulary: usize) -> Result<Self> {
        let file = TensorFile::open(path)?;
        let tensor = file.require("input_ids")?;
        let [batch, tokens] = tensor.sizes("[B, T]")?;
        if batch > MAX_BATCH {
            return Err(tensor.refuse(format!("at most {MAX_BATCH} sequences"), batch));
        }
        let check = |id: i64| {
            let id = u32::try_from(id).ok();
            id.filter(|&id| (id as usize) < vocabulary)
        };
        let values = tensor.values::<i64>("[B, T]", &[batch, tokens])?;
        let ids = values.iter().map(|&id| {
            check(id)
                .ok_or_else(|| tensor.refuse(format!("token ids from 0 to {}", vocabulary - 1), id))
        });
        Ok(Self {
            batch,
            tokens,
            ids: ids.collect::<Result<_>>()?,
        })
    }
}

/// What all sequences gave.
struct Done {
    /// `[batch, tokens, vocabulary]`.
    logits: Vec<f32>,
    /// By sequence and layer; they may be missing unless asked for.
    decisions: Vec<Vec<Decisions>>,
}

/// Runs the sequences one after the other, each by its decisions of `replay` where there are any; tells what was
/// decided if that is `wanted`.
fn sequences(
    runner: &Runner,
    ids: &Ids,
    prefill: usize,
    replay: Option<&[Vec<Decisions>]>,
    wanted: bool,
) -> Result<Done> {
    let mut done = Done {
        logits: room(ids.ids.len(), runner.config().vocabulary)?,
        decisions: vec![vec![Decisions::default(); runner.config().layers]; ids.batch],
    };
    if ids.tokens == 0 {
        return Ok(done);
    }
    let heads = runner.config().dims().heads;
    for (b, sequence) in ids.ids.chunks_exact(ids.tokens).enumerate() {
        let mut session = runner.start()?;
        let (prompt, rest) = sequence.split_at(prefill);
        let mut first = 0;
        for piece in [prompt].into_iter().chain(rest.chunks(1)) {
            let tokens = first..first + piece.len();
            first = tokens.end;
            let given = replay.map(|replay| {
                let layers = replay[b].iter();
                layers
                    .map(|layer| layer.part(heads, tokens.clone()))
                    .collect::<Vec<_>>()
            });
            let call = Call {
                logits: Rows::All,
                replay: given.as_deref(),
            };
            let reply = runner.run(&mut session, piece, &call, wanted)?;
            done.logits.extend(reply.logits);
            for (all, trace) in done.decisions[b].iter_mut().zip(&reply.traces) {
                all.append(&trace.decisions);
            }
        }
    }
    Ok(done)
}

/// Space for the logits, or an error instead of an abort: a small file can ask for many.
fn room(tokens: usize, vocabulary: usize) -> Result<Vec<f32>> {
    let mut logits = Vec::new();
    let values = tokens.saturating_mul(vocabulary);
    logits.try_reserve_exact(values).map_err(|_| {
        let got = format!("{values} values");
        Error::unsupported("logits", "input_ids", "logits that fit into memory", got)
            .advise("split the batch")
    })?;
    Ok(logits)
}

fn told(
    args: &Logits,
    runner: &Runner,
    [batch, tokens, vocabulary]: [usize; 3],
    prefill: usize,
    seconds: f64,
) -> Report {
    let path = args.output.display().to_string();
    let rate = (batch * tokens) as f64 / seconds;
    let text = format!(
        "{path}: batch {batch}, {tokens} tokens ({prefill} at once), vocabulary {vocabulary} \
         on {} in {seconds:.2} s, {rate:.0} tokens/s",
        runner.name()
    );
    let json = json!({
        "output": path,
        "backend": runner.kind(),
        "batch": batch,
        "tokens": tokens,
        "prefill": prefill,
        "vocabulary": vocabulary,
        "seconds": seconds,
    });
    Report { text, json }
}
