//! The tasks of `dla eval`.

use dla_core::{Error, Result};
use dla_text::Tokenizer;
use dla_train::eval::{bound, needles, states, text, totals};
use dla_train::store::read_model;
use dla_train::task::niah::{Haystack, Kind, Niah, NiahOptions, depths};
use dla_train::task::{Corpus, Mqar, Split, Task as _};
use serde_json::json;

use super::counted::Counted;
use super::{Measured, cell, heat, table};
use crate::args::{Eval, Global, ModelArgs, Task};
use crate::progress;
use crate::runner::{self, Runner};

/// Measures the task that the arguments name with the model that `model` names.
pub(super) fn measure(args: &Eval, model: &ModelArgs, global: &Global) -> Result<Measured> {
    if args.picture.is_some() && args.task != Task::Niah {
        let expected = "none but with --task niah";
        return Err(Error::input("eval", "--picture", expected, "a file"));
    }
    match args.task {
        Task::Text => bits(args, model, global),
        Task::Mqar => recall(args, model, global),
        Task::Niah => haystacks(args, model, global),
        Task::Bound => progress::watched("measuring", || bounds(args, model)),
        Task::States => openings(args, model, global),
    }
}

/// The one length that most tasks have.
fn length(args: &Eval, default: usize) -> Result<usize> {
    match args.lengths[..] {
        [] => Ok(default),
        [length] if length > 0 => Ok(length),
        _ => {
            let got = format!("{:?}", args.lengths);
            Err(Error::input(
                "eval",
                "--lengths",
                "one length of at least 1",
                got,
            ))
        }
    }
}

/// The files of `--text-file`.
fn corpus(args: &Eval) -> Result<Corpus> {
    Corpus::open(&args.text_file).map_err(|error| match error.argument() {
        "data.files" => error.at("--text-file").within("eval"),
        _ => error.within("eval"),
    })
}

/// The texts that a task reads, whole or what is held out.
fn texts(args: &Eval) -> Result<Vec<Vec<u8>>> {
    if args.text_file.is_empty() {
        return Err(Error::input(
            "eval",
            "--text-file",
            "a text for this task",
            "none",
        ));
    }
    let corpus = corpus(args)?;
    let held: Vec<&[u8]> = corpus.parts(Split::Held).collect();
    let trained = corpus.parts(Split::Train);
    Ok(trained
        .zip(held)
        .map(|(trained, held)| match args.held_out {
            true => held.to_vec(),
            false => [trained, held].concat(),
        })
        .collect())
}

/// The first tokens of the texts.
fn beginning(args: &Eval, tokenizer: &Tokenizer, most: usize) -> Result<Vec<u32>> {
    let mut ids = Vec::new();
    for text in texts(args)? {
        if ids.len() < most {
            ids.extend(tokenizer.encode_bytes(&text)?);
        }
    }
    ids.truncate(most);
    Ok(ids)
}

fn bits(args: &Eval, model: &ModelArgs, global: &Global) -> Result<Measured> {
    let window = length(args, 1024)?;
    let texts = texts(args)?;
    let runner = Runner::load(model, global)?;
    let tokenizer = Tokenizer::of(&model.model, runner.config())?;
    let texts = texts
        .iter()
        .map(|text| text::Encoded::new(&tokenizer, text));
    let texts = texts.collect::<Result<Vec<_>>>()?;
    let tokens = texts.iter().map(text::Encoded::predicted).sum();
    let score = text::score(&Counted::tokens(&runner, tokens), &texts, window)?;
    let (number, totals) = (score.bits_per_byte(), score.totals);
    Ok(Measured {
        text: format!(
            "{number:.4} bits per byte: {} tokens of {} bytes, loss {:.4}, {:.1}% right",
            totals.counted,
            score.bytes,
            totals.loss(),
            100.0 * totals.accuracy()
        ),
        json: json!({
            "bits_per_byte": number, "loss": totals.loss(), "accuracy": totals.accuracy(),
            "tokens": totals.counted, "bytes": score.bytes, "window": window,
        }),
        what: "bits per byte",
        number: Some(number),
    })
}

fn recall(args: &Eval, model: &ModelArgs, global: &Global) -> Result<Measured> {
    let length = length(args, 256)?;
    let runner = Runner::load(model, global)?;
    let vocabulary = runner.config().vocabulary;
    let examples = args.examples.saturating_mul(args.pairs.len());
    let tokens = length.saturating_mul(examples);
    let counted = Counted::tokens(&runner, tokens);
    let (mut rows, mut lines, mut sum) = (Vec::new(), Vec::new(), 0.0);
    for &pairs in &args.pairs {
        let task = Mqar::new(length, pairs, vocabulary).map_err(|error| {
            if error.argument() == "vocabulary" {
                let expected = format!("less than the {vocabulary} ids of the model's vocabulary");
                return Error::input("eval", "--lengths", expected, length);
            }
            let name = match error.argument() {
                "length" => "--lengths",
                _ => "--pairs",
            };
            error.at(name).within("eval")
        })?;
        let batch = task.batch(Split::Held, args.seed, 0, args.examples)?;
        let totals = totals(&counted, &batch)?;
        let (accuracy, loss) = (totals.accuracy(), totals.loss());
        sum += accuracy;
        rows.push(vec![
            pairs.to_string(),
            format!("{accuracy:.4}"),
            format!("{loss:.4}"),
        ]);
        lines.push(json!({ "pairs": pairs, "accuracy": accuracy, "loss": loss }));
    }
    let head = ["pairs", "accuracy", "loss"].map(str::to_owned);
    Ok(Measured {
        text: table(&head, &rows),
        json: json!({ "length": length, "examples": args.examples, "pairs": lines }),
        what: "accuracy",
        number: Some(sum / args.pairs.len() as f64),
    })
}

/// The kinds that were asked for; without texts only those that need none go without saying.
fn kinds(args: &Eval) -> Result<Vec<Kind>> {
    if !args.kinds.is_empty() {
        let kinds = args.kinds.iter().map(|word| word.parse());
        return kinds
            .collect::<Result<_>>()
            .map_err(|error: Error| error.at("--kinds").within("eval"));
    }
    let mut kinds = Kind::ALL.to_vec();
    if args.text_file.is_empty() {
        kinds.retain(|kind| kind.recipe().haystack != Haystack::Text);
    }
    Ok(kinds)
}

fn haystacks(args: &Eval, model: &ModelArgs, global: &Global) -> Result<Measured> {
    let (kinds, depths) = (kinds(args)?, depths(args.depths));
    let lengths = match args.lengths.is_empty() {
        true => vec![1024],
        false => args.lengths.clone(),
    };
    let picture = args.picture.as_deref().map(heat::Picture::of).transpose()?;
    let corpus = (!args.text_file.is_empty()).then(|| corpus(args));
    let corpus = corpus.transpose()?;
    let runner = Runner::load(model, global)?;
    let vocabulary = runner.config().vocabulary;
    let tokenizer = Tokenizer::of(&model.model, runner.config())?;
    // Lengths that the needles do not fit into are refused before anything is measured.
    let task = |&length: &usize| {
        let options = NiahOptions {
            tokens: length,
            kinds: kinds.clone(),
            keys: None,
            values: None,
            whole_text: false,
        };
        let task = Niah::new(options, tokenizer.clone(), vocabulary, corpus.as_ref());
        task.map(|task| (length, task))
    };
    let tasks = lengths.iter().map(task).collect::<Result<Vec<_>>>()?;
    let cells = tasks.len() * kinds.len() * depths.len();
    let texts = cells.saturating_mul(args.examples);
    let counted = Counted::texts(&runner, texts);
    let (mut cells, mut rows) = (Vec::new(), Vec::new());
    for (length, task) in tasks {
        for &kind in &kinds {
            let mut row = vec![format!("{} {length}", kind.name())];
            for &depth in &depths {
                let examples = args.examples as u64;
                let found = needles::ask(&counted, &task, (kind, depth), args.seed, examples)?;
                row.push(format!("{:.0}", 100.0 * found));
                cells.push(needles::Cell {
                    kind,
                    length,
                    depth,
                    found,
                });
            }
            rows.push(row);
        }
    }
    if let Some(picture) = picture {
        picture.write(&cells)?;
    }
    let mut head = vec!["found, % at depth".to_owned()];
    head.extend(depths.iter().map(|depth| format!("{depth}%")));
    let lines: Vec<_> = cells
        .iter()
        .map(|cell| {
            json!({
                "kind": cell.kind.name(), "length": cell.length, "depth": cell.depth, "found": cell.found,
            })
        })
        .collect();
    let found: f64 = cells.iter().map(|cell| cell.found).sum();
    Ok(Measured {
        text: table(&head, &rows),
        json: json!({ "examples": args.examples, "cells": lines }),
        what: "found",
        number: Some(found / cells.len() as f64),
    })
}

fn bounds(args: &Eval, model: &ModelArgs) -> Result<Measured> {
    let most = length(args, 512)?;
    runner::open(&model.model)?;
    let (config, tensors) = read_model(&model.model)?;
    let tokenizer = Tokenizer::of(&model.model, &config)?;
    let ids = beginning(args, &tokenizer, most)?;
    let heads = bound::compare(&config, &tensors, &ids)?;
    let mut rows = Vec::new();
    for head in &heads {
        let mut row = vec![
            format!("{}.{}", head.layer, head.head),
            head.states.to_string(),
        ];
        row.extend([head.greedy, head.offline, head.single].map(|x| format!("{x:.4}")));
        row.push(cell(head.ratio(), 3));
        rows.push(row);
    }
    let lines: Vec<_> = heads
        .iter()
        .map(|head| {
            json!({
                "layer": head.layer, "head": head.head, "states": head.states,
                "greedy": head.greedy, "offline": head.offline, "single": head.single,
                "ratio": head.ratio(),
            })
        })
        .collect();
    let head = [
        "layer.head",
        "states",
        "greedy",
        "offline",
        "single",
        "greedy/offline",
    ];
    Ok(Measured {
        text: table(&head.map(str::to_owned), &rows),
        json: json!({ "tokens": ids.len(), "heads": lines }),
        what: "greedy/offline bound",
        number: bound::overall(&heads),
    })
}

fn openings(args: &Eval, model: &ModelArgs, global: &Global) -> Result<Measured> {
    let most = length(args, 4096)?;
    let runner = Runner::load(model, global)?;
    let tokenizer = Tokenizer::of(&model.model, runner.config())?;
    let ids = beginning(args, &tokenizer, most)?;
    let heads = states::count(&Counted::tokens(&runner, ids.len()), &ids)?;
    let (mut rows, mut lines) = (Vec::new(), Vec::new());
    for head in &heads {
        let (rate, tokens) = (head.boundary_rate(), head.tokens_per_state());
        rows.push(vec![
            format!("{}.{}", head.layer, head.head),
            format!("{rate:.4}"),
            head.boundaries.to_string(),
            head.merges.to_string(),
            head.live.to_string(),
            format!("{tokens:.1}"),
        ]);
        lines.push(json!({
            "layer": head.layer, "head": head.head, "boundary_rate": rate,
            "boundaries": head.boundaries, "merges": head.merges, "live": head.live,
            "tokens_per_state": tokens,
        }));
    }
    let head = [
        "layer.head",
        "boundary rate",
        "boundaries",
        "merges",
        "live",
        "tokens/state",
    ];
    let rates = heads.iter().map(|head| head.boundary_rate());
    Ok(Measured {
        text: table(&head.map(str::to_owned), &rows),
        json: json!({ "tokens": ids.len(), "heads": lines }),
        what: "boundary rate",
        number: Some(rates.sum::<f64>() / heads.len() as f64),
    })
}
