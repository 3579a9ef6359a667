//! `dla upcycle`: a plain checkpoint as DLA, with the same outputs until it is tuned.

use std::path::Path;

use dla_core::Result;
use dla_core::checkpoint::Upcycle;
use serde_json::json;

use crate::atomic::NewFolder;
use crate::progress::{Progress, Unit};
use crate::report::Report;
use crate::{args, atomic, runner};

/// What lies beside the weights and stays as it is.
const COMPANIONS: [&str; 7] = [
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "vocab.json",
    "merges.txt",
    "special_tokens_map.json",
    "generation_config.json",
];

/// Reads a plain model directory and writes the upcycled one.
///
/// # Errors
/// When the model is refused or DLA already, or the output exists or cannot be written; no output
/// appears then.
pub fn run(args: &args::Upcycle) -> Result<Report> {
    atomic::check_new_folder(&args.output)?;
    let checkpoint = runner::open(&args.model)?;
    let upcycle = Upcycle {
        capacity: args.capacity,
        tau: args.tau,
    };
    let config = upcycle.config(&checkpoint)?;
    let bytes = upcycle.weight_bytes(&checkpoint)?;
    let progress = Progress::new("writing the model", Unit::Bytes, bytes);
    atomic::folder_of(&args.output, |folder| {
        folder.bytes("config.json", config.as_bytes())?;
        folder.file("model.safetensors", |out| {
            upcycle.weights(&checkpoint, &mut progress.counting(out))
        })?;
        copy_companions(&args.model, folder)
    })?;
    drop(progress);
    Ok(told(args))
}

/// Copies what lies beside the weights of one model directory, its tokenizer above all, to another.
///
/// # Errors
/// When a file cannot be copied.
pub(crate) fn copy_companions(from: &Path, to: &NewFolder) -> Result<()> {
    for name in COMPANIONS {
        let source = from.join(name);
        if source.is_file() {
            to.copy(&source, name)?;
        }
    }
    Ok(())
}

fn told(args: &args::Upcycle) -> Report {
    let path = args.output.display().to_string();
    let (capacity, tau) = (args.capacity, args.tau);
    Report {
        text: format!("{path}: DLA with {capacity} states, tau {tau}; same outputs until tuned"),
        json: json!({ "output": path, "capacity": capacity, "tau": tau }),
    }
}
