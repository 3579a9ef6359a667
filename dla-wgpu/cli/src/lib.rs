//! The `dla` command: run, inspect and measure Dynamic Linear Attention.
//!
//! The binary only calls [`run`]. Each command is a module with a function that takes its arguments
//! and gives a [`report::Report`], which is printed for people or, with `--json`, for machines.

pub mod args;
pub mod backend;
pub mod bench;
pub mod case;
pub mod decisions;
pub mod demo;
pub mod devices;
pub mod eval;
pub mod generate;
pub mod inspect;
pub mod logits;
pub mod op;
pub mod paced;
pub mod progress;
pub mod report;
pub mod runner;
pub mod segment;
pub mod signals;
pub mod style;
pub mod tensors;
pub mod train;
pub mod upcycle;

pub use dla_train::atomic;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::FromArgMatches;
use dla_core::Result;

use args::{Args, Command};
use report::Report;

/// Runs the command line `args`, its first word the program's name, and says how it ended.
///
/// 0 is success, 1 a run that failed, 2 wrong usage or input; errors are one line on stderr.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    signals::watch();
    let words: Vec<OsString> = args.into_iter().collect();
    let matches = Args::grammar().try_get_matches_from(&words);
    let args = match matches.and_then(|mut matches| Args::from_arg_matches_mut(&mut matches)) {
        Ok(args) => args,
        Err(error) => return report::usage(&error, Args::grammar(), &words),
    };
    match dispatch(&args) {
        Ok(report) => report::print(&report, args.global.json),
        Err(error) => report::fail(&error),
    }
}

fn dispatch(args: &Args) -> Result<Report> {
    args.check()?;
    match &args.command {
        None => demo::run(args.weights, &args.global),
        Some(Command::Devices) => devices::run(&args.global),
        Some(Command::Op(op)) => op::run(op, &args.global),
        Some(Command::Logits(logits)) => logits::run(logits, &args.global),
        Some(Command::Generate(generate)) => generate::run(generate, &args.global),
        Some(Command::Segment(segment)) => segment::run(segment, &args.global),
        Some(Command::Inspect(inspect)) => inspect::run(inspect),
        Some(Command::Upcycle(upcycle)) => upcycle::run(upcycle),
        Some(Command::Train(train)) => train::run(train, &args.global),
        Some(Command::Eval(eval)) => eval::run(eval, &args.global),
        Some(Command::Bench(args::Bench::Op(op))) => bench::op::run(op, &args.global),
        Some(Command::Bench(args::Bench::Decode(decode))) => {
            bench::model::decode(decode, &args.global)
        }
        Some(Command::Bench(args::Bench::Prefill(prefill))) => {
            bench::model::prefill(prefill, &args.global)
        }
        Some(Command::Bench(args::Bench::Train(train))) => bench::train::run(train, &args.global),
    }
}

/// The examples of the README are compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
