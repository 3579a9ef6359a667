//! `dla logits`: a model's logits of token ids from a file.

use std::ops::Range;
use std::path::Path;
use std::time::Instant;

use dla_core::model::{Call, Reply, Rows};
use dla_core::{Decisions, Error, Result};
use serde_json::json;

use crate::args::{Global, Logits};
use crate::progress::{Progress, Unit};
use crate::report::Report;
use crate::runner::{Runner, Sequence};
use crate::tensors::{self, TensorFile, Values};
use crate::{atomic, decisions};

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
    let sizes = [ids.batch, ids.tokens, runner.config().vocabulary];
    let mut run = Sequences {
        runner: &runner,
        prefill,
        replay: replay.as_deref(),
        decisions: args.decisions.is_some().then(Vec::new),
        progress: Progress::new("running the model", Unit::Tokens, ids.ids.len()),
    };
    tensors::stream(&args.output, "logits", &sizes, |logits| {
        run.take(&ids, logits)
    })?;
    if let (Some(path), Some(decisions)) = (&args.decisions, &run.decisions) {
        shape.write(path, decisions)?;
    }
    drop(run);
    let seconds = start.elapsed().as_secs_f64();
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

/// The sequences of a file, run one after the other.
struct Sequences<'a> {
    runner: &'a Runner,
    prefill: usize,
    /// The decisions to follow, by sequence and layer.
    replay: Option<&'a [Vec<Decisions>]>,
    /// What was decided, by sequence and layer, if that is wanted.
    decisions: Option<Vec<Vec<Decisions>>>,
    progress: Progress,
}

impl Sequences<'_> {
    /// Runs all of them; their logits go out as they come.
    fn take(&mut self, ids: &Ids, logits: &mut Values<'_>) -> Result<()> {
        let layers = self.runner.config().layers;
        if let Some(decisions) = &mut self.decisions {
            decisions.resize(ids.batch, vec![Decisions::default(); layers]);
        }
        if ids.tokens == 0 {
            return Ok(());
        }
        for (item, ids) in ids.ids.chunks_exact(ids.tokens).enumerate() {
            let mut sequence = self.runner.start()?;
            let (prompt, rest) = ids.split_at(self.prefill);
            let mut slices = self.runner.slices(prompt);
            let slices = std::iter::from_fn(|| slices.take(1));
            let mut first = 0;
            for piece in slices.chain(rest.chunks(1)) {
                let tokens = first..first + piece.len();
                first = tokens.end;
                let reply = self.piece(&mut sequence, piece, item, tokens)?;
                logits.push(&reply.logits)?;
                if let Some(decisions) = &mut self.decisions {
                    for (all, trace) in decisions[item].iter_mut().zip(&reply.traces) {
                        all.append(&trace.decisions);
                    }
                }
                self.progress.advance(piece.len());
            }
        }
        Ok(())
    }

    /// Runs the tokens `tokens` of sequence `item`.
    fn piece(
        &self,
        sequence: &mut Sequence,
        piece: &[u32],
        item: usize,
        tokens: Range<usize>,
    ) -> Result<Reply> {
        let heads = self.runner.config().dims().heads;
        let given = self.replay.map(|replay| {
            let layers = replay[item].iter();
            let layers = layers.map(|layer| layer.part(heads, tokens.clone()));
            layers.collect::<Vec<_>>()
        });
        let call = Call {
            logits: Rows::All,
            traces: self.decisions.is_some(),
            replay: given.as_deref(),
        };
        self.runner.run(sequence, piece, &call)
    }
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
