//! `dla devices`: what the operator can run on here.

use dla_core::Result;
use serde_json::json;

use crate::args::Global;
use crate::report::Report;

/// Lists what `--backend` can choose.
///
/// # Errors
/// None yet.
pub fn run(_: &Global) -> Result<Report> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(Report {
        text: format!("cpu: the reference in plain Rust, {threads} threads"),
        json: json!({ "cpu": { "threads": threads }, "adapters": [] }),
    })
}
