//! `dla op`: the bare operator on arrays from a file.

use std::path::Path;
use std::time::{Duration, Instant};

use dla_core::{Dims, Output, Result};
use serde_json::json;

use crate::args::{Global, Op};
use crate::atomic;
use crate::backend::Engine;
use crate::case::Case;
use crate::report::Report;
use crate::tensors::TensorWriter;

/// Reads a case, runs the operator, writes its outputs.
///
/// # Errors
/// When the case is refused, the run fails or the output cannot be written; no output appears then.
pub fn run(args: &Op, global: &Global) -> Result<Report> {
    atomic::check(&args.output)?;
    let case = Case::read(&args.input)?;
    let engine = Engine::open(global)?;
    let start = Instant::now();
    let output = engine.forward(
        &case.dims,
        &case.config,
        &case.inputs(),
        case.cache.as_ref(),
        args.chunk,
    )?;
    let elapsed = start.elapsed();
    write(&args.output, &case.dims, &output)?;
    Ok(report(args, engine.name(), &case.dims, &output, elapsed))
}

/// Writes the outputs of one call as a safetensors file.
fn write(path: &Path, dims: &Dims, output: &Output<f32>) -> Result<()> {
    let Dims {
        batch,
        tokens,
        heads,
        key_dim,
        value_dim,
        capacity,
        ..
    } = *dims;
    let token_heads = [batch, tokens, heads];
    let entries = [batch, heads, capacity];
    let trace = &output.trace;
    let cache = &output.cache;
    // Token counts stay below the i32 limit: sizes are checked, and a count sums tokens.
    let n: Vec<i32> = cache
        .n
        .iter()
        .map(|&n| n.try_into().unwrap_or(i32::MAX))
        .collect();

    let mut file = TensorWriter::default();
    file.tensor("o", &[batch, tokens, heads, value_dim], &output.o);
    file.tensor("score", &token_heads, &trace.score);
    file.tensor("boundary", &token_heads, &trace.decisions.boundary);
    file.tensor("merge_at", &token_heads, &trace.decisions.merge_at);
    file.tensor("count", &token_heads, &trace.count);
    file.tensor(
        "states",
        &[batch, heads, capacity, key_dim, value_dim],
        &cache.states,
    );
    file.tensor("n", &entries, &n);
    file.tensor("info", &entries, &cache.info);
    file.word("non_finite", trace.non_finite);
    file.write(path)
}

fn report(
    args: &Op,
    backend: &str,
    dims: &Dims,
    output: &Output<f32>,
    elapsed: Duration,
) -> Report {
    let decisions = &output.trace.decisions;
    let opened = decisions.boundary.iter().filter(|&&word| word == 1).count();
    let merged = decisions
        .merge_at
        .iter()
        .filter(|&&place| place >= 0)
        .count();
    let live: Vec<usize> = output
        .cache
        .n
        .chunks(dims.capacity)
        .map(|entries| entries.iter().filter(|&&n| n > 0).count())
        .collect();
    let non_finite = output.trace.non_finite;
    let form = args.chunk.map_or("token by token".into(), |chunk| {
        format!("in chunks of {chunk}")
    });
    let path = args.output.display().to_string();
    let text = format!(
        "{path}: {} tokens of {} sequences × {} heads, {form} on {backend} in {:.1} ms\n\
         states opened {opened}, merged {merged}, live at the end {} of {} per head; scores not finite {non_finite}",
        dims.tokens,
        dims.batch,
        dims.heads,
        elapsed.as_secs_f64() * 1e3,
        range(&live),
        dims.capacity,
    );
    let json = json!({
        "output": path,
        "backend": backend,
        "chunk": args.chunk,
        "seconds": elapsed.as_secs_f64(),
        "dims": {
            "batch": dims.batch, "tokens": dims.tokens, "heads": dims.heads, "groups": dims.groups,
            "key_dim": dims.key_dim, "value_dim": dims.value_dim, "capacity": dims.capacity,
        },
        "opened": opened,
        "merged": merged,
        "live": live,
        "non_finite": non_finite,
    });
    Report { text, json }
}

/// The least and the most of some counts.
fn range(counts: &[usize]) -> String {
    match (counts.iter().min(), counts.iter().max()) {
        (Some(least), Some(most)) if least != most => format!("{least} to {most}"),
        (Some(least), _) => least.to_string(),
        _ => "0".into(),
    }
}
