//! Runs the case table on this machine, through every set of kernels it has, and keeps the record.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use dla_core::{Error, Result};
use dla_tests::hardware::{Record, Row, measure};
use dla_tests::kernels::Kernels;
use dla_wgpu::{Gpu, GpuOptions};

/// Runs the case table on this machine, through every set of kernels it has, and keeps the record.
#[derive(Debug, Parser)]
struct Args {
    /// Only says which rows are stale, without running anything
    #[arg(long)]
    check: bool,
    /// The record; its rows of other machines are kept
    #[arg(long, value_name = "PATH", default_value = "docs/hardware.md")]
    output: PathBuf,
    /// Take the adapter whose name contains NAME
    #[arg(long, value_name = "NAME")]
    adapter: Option<String>,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    let mut record = read(&args.output)?;
    if args.check {
        for row in record.stale() {
            println!("STALE: {row}");
        }
        for kernels in record.missing() {
            println!("note: no machine has recorded {kernels}");
        }
        return Ok(());
    }
    let portable = open(args, true)?;
    let full = open(args, false)?;
    let mut failed = Vec::new();
    for kernels in Kernels::ALL {
        let gpu = if kernels.portable() { &portable } else { &full };
        if !kernels.run_on(gpu.variant()) {
            println!("{}: not on this device", kernels.name());
            continue;
        }
        // Kernels that fail must not take the rows of others along.
        let (cases, errors) = match measure(gpu, kernels) {
            Ok(measured) => measured,
            Err(error) => {
                eprintln!("{}: {error}", kernels.name());
                failed.push(kernels.name());
                continue;
            }
        };
        let row = Row::new(gpu, kernels, cases, errors);
        println!("{row}");
        record.put(row);
        let unwritten = |error| Error::file("hardware", "--output", "to be written", error);
        std::fs::write(&args.output, record.to_string()).map_err(unwritten)?;
    }
    match failed.is_empty() {
        true => Ok(()),
        false => {
            let (expected, got) = ("errors within the rule", failed.join(", "));
            Err(Error::device("hardware", "kernels", expected, got))
        }
    }
}

fn open(args: &Args, portable: bool) -> Result<Gpu> {
    Gpu::new_blocking(&GpuOptions {
        adapter: args.adapter.clone(),
        portable,
        ..Default::default()
    })
}

/// The record so far; empty where there is no file yet.
fn read(path: &Path) -> Result<Record> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Record::parse(&text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Record::default()),
        Err(error) => Err(Error::file(
            "hardware",
            "--output",
            "a readable file",
            error,
        )),
    }
}
