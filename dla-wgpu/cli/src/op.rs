//! `dla op`: the bare operator on arrays from a file.

use std::time::{Duration, Instant};

use dla_core::dla::backward::Gradients;
use dla_core::{Dims, Inputs, Output, Result};
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
    let mut engine = Engine::open(global)?;
    let start = Instant::now();
    let inputs = case.inputs();
    let call = case.call(&inputs, args.chunk);
    let output = engine.forward(&call)?;
    let mut file = outputs(&case.dims, &output);
    if let Some(d_o) = &case.d_o {
        // The gradients of the run that the file holds, whatever computes them: they follow its decisions.
        let inputs = Inputs {
            replay: Some(&output.trace.decisions),
            ..inputs
        };
        let call = case.call(&inputs, args.chunk);
        add_gradients(&mut file, &case, engine.backward(&call, d_o)?);
    }
    let elapsed = start.elapsed();
    file.write(&args.output)?;
    Ok(report(args, &engine, &case.dims, &output, elapsed))
}

/// The outputs of one call as a safetensors file.
fn outputs(dims: &Dims, output: &Output<f32>) -> TensorWriter {
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
    // A file cannot hold more tokens than an i32 counts; a cache to start from may bring more.
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
    file
}

/// The gradients in their inputs' shapes, for the inputs that the case has.
fn add_gradients(file: &mut TensorWriter, case: &Case, gradients: Gradients<f32>) {
    let Dims {
        batch,
        tokens,
        heads,
        groups,
        key_dim,
        value_dim,
        capacity,
    } = case.dims;
    let keys = [batch, tokens, groups, key_dim];
    file.tensor("dq", &keys, &gradients.q);
    file.tensor("dk", &keys, &gradients.k);
    file.tensor("dv", &[batch, tokens, heads, value_dim], &gradients.v);
    file.tensor(
        "dlambda",
        &[batch, tokens, heads, capacity],
        &gradients.lambda,
    );
    file.tensor("dtau", &[heads], &gradients.tau);
    for (name, gradient) in [("dg", &gradients.g), ("dbeta", &gradients.beta)] {
        if let Some(gradient) = gradient {
            file.tensor(name, &[batch, tokens, heads], gradient);
        }
    }
    if case.cache.is_some() {
        let states = [batch, heads, capacity, key_dim, value_dim];
        file.tensor("dh0", &states, &gradients.states);
    }
}

fn report(
    args: &Op,
    engine: &Engine,
    dims: &Dims,
    output: &Output<f32>,
    elapsed: Duration,
) -> Report {
    let Dims {
        batch,
        tokens,
        heads,
        groups,
        key_dim,
        value_dim,
        capacity,
    } = *dims;
    let path = args.output.display().to_string();
    let name = engine.name();
    let decisions = &output.trace.decisions;
    let opened = decisions.boundary.iter().filter(|&&word| word == 1).count();
    let merged = decisions
        .merge_at
        .iter()
        .filter(|&&place| place >= 0)
        .count();
    let live: Vec<usize> = output.cache.n.chunks(capacity).map(live_states).collect();
    let non_finite = output.trace.non_finite;
    let milliseconds = elapsed.as_secs_f64() * 1e3;
    let text = format!(
        "{path}: batch {batch}, {tokens} tokens, {heads} heads on {name} in {milliseconds:.1} ms\n\
         states opened {opened}, merged {merged}, live at the end {} of {capacity}; \
         non-finite scores {non_finite}",
        range(&live),
    );
    let json = json!({
        "output": path,
        "backend": engine.kind(),
        "device": name,
        "chunk": args.chunk,
        "seconds": elapsed.as_secs_f64(),
        "dims": {
            "batch": batch, "tokens": tokens, "heads": heads, "groups": groups,
            "key_dim": key_dim, "value_dim": value_dim, "capacity": capacity,
        },
        "opened": opened,
        "merged": merged,
        "live": live,
        "non_finite": non_finite,
    });
    Report { text, json }
}

fn live_states(n: &[u32]) -> usize {
    n.iter().filter(|&&n| n > 0).count()
}

/// The least and the most of some counts.
fn range(counts: &[usize]) -> String {
    match (counts.iter().min(), counts.iter().max()) {
        (Some(least), Some(most)) if least != most => format!("{least} to {most}"),
        (Some(least), _) => least.to_string(),
        _ => "0".into(),
    }
}
