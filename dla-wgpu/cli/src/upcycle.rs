//! `dla upcycle`: a plain checkpoint as DLA, with the same outputs until it is tuned.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use dla_core::checkpoint::{Checkpoint, Upcycle};
use dla_core::{Error, Result};
use serde_json::json;

use crate::report::Report;
use crate::{args, atomic, progress};

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
    check_output(&args.output)?;
    let checkpoint = Checkpoint::open(&args.model)?;
    let upcycle = Upcycle {
        capacity: args.capacity,
        tau: args.tau,
    };
    let config = upcycle.config(&checkpoint)?;
    progress::watched("writing the model", || {
        atomic::folder_of(&args.output, |folder| {
            write_text(&folder.join("config.json"), &config)?;
            write_weights(&folder.join("model.safetensors"), &upcycle, &checkpoint)?;
            copy_companions(&args.model, folder)
        })
    })?;
    Ok(told(args))
}

/// Refuses, before any work is done, an output that exists or whose parent does not.
fn check_output(output: &Path) -> Result<()> {
    atomic::check(output)?;
    if output.exists() {
        let name = output.display().to_string();
        let error = Error::input("write", name, "a new folder", "an existing file");
        return Err(error.advise("name another one"));
    }
    Ok(())
}

fn write_text(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| unwritten(path, error))
}

fn write_weights(path: &Path, upcycle: &Upcycle, checkpoint: &Checkpoint) -> Result<()> {
    let file = File::create_new(path).map_err(|error| unwritten(path, error))?;
    let mut out = BufWriter::new(file);
    upcycle.weights(checkpoint, &mut out)?;
    let ended = out.flush().and_then(|()| out.get_ref().sync_all());
    ended.map_err(|error| unwritten(path, error))
}

/// Copies what lies beside the weights of one model directory, its tokenizer above all, to another.
///
/// # Errors
/// When a file cannot be copied.
pub(crate) fn copy_companions(from: &Path, to: &Path) -> Result<()> {
    for name in COMPANIONS {
        let source = from.join(name);
        if source.is_file() {
            fs::copy(&source, to.join(name)).map_err(|error| unwritten(&to.join(name), error))?;
        }
    }
    Ok(())
}

fn unwritten(path: &Path, error: io::Error) -> Error {
    Error::file("write", path.display().to_string(), "to be written", error)
}

fn told(args: &args::Upcycle) -> Report {
    let path = args.output.display().to_string();
    let (capacity, tau) = (args.capacity, args.tau);
    Report {
        text: format!("{path}: DLA with {capacity} states, tau {tau}; same outputs until tuned"),
        json: json!({ "output": path, "capacity": capacity, "tau": tau }),
    }
}
