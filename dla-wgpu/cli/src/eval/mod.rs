//! `dla eval`: what a trained model can do.

mod counted;
mod heat;
mod tasks;

use std::path::Path;

use dla_core::dims::MAX_CAPACITY;
use dla_core::{Error, Result};
use dla_train::eval::grid::{self, Grid};
use dla_train::store::{read_model, write_model};
use serde_json::{Value, json};

use crate::args::{self, Global, ModelArgs};
use crate::atomic::{NewFolder, Scratch};
use crate::report::Report;
use crate::{runner, upcycle};

/// A task's result, told twice, and the one number that sums it up.
struct Measured {
    text: String,
    json: Value,
    /// What the number is.
    what: &'static str,
    /// None where it is the quotient of nothing.
    number: Option<f64>,
}

/// Measures the model, once or for every point of the grid.
///
/// # Errors
/// When options, model or texts are refused, or a run fails.
pub fn run(args: &args::Eval, global: &Global) -> Result<Report> {
    match &args.grid {
        None => {
            let measured = tasks::measure(args, &args.model, global)?;
            Ok(Report {
                text: measured.text,
                json: measured.json,
            })
        }
        Some(grid) => over(&grid.parse()?, args, global),
    }
}

/// Measures every point of the grid, each as a model directory of its own.
fn over(grid: &Grid, args: &args::Eval, global: &Global) -> Result<Report> {
    if args.picture.is_some() {
        let expected = "none with --grid";
        return Err(Error::input("eval", "--picture", expected, "a file"));
    }
    runner::open(&args.model.model)?;
    let (config, tensors) = read_model(&args.model.model)?;
    for &capacity in &grid.capacities {
        if !(1..=MAX_CAPACITY).contains(&capacity) {
            let expected = format!("capacities from 1 to {MAX_CAPACITY}");
            return Err(Error::input("eval", "--grid", expected, capacity));
        }
    }
    let (mut points, mut rows, mut what) = (Vec::new(), Vec::new(), "");
    for &capacity in &grid.capacities {
        let mut row = vec![format!("K {capacity}")];
        for &tau in &grid.thresholds {
            let scratch = Scratch::new()?;
            let folder = scratch.path();
            let (config, tensors) = grid::variant(&config, &tensors, capacity, tau)?;
            write_model(&folder, &config, &tensors)?;
            upcycle::copy_companions(&args.model.model, &NewFolder::in_place(&folder))?;
            let model = at(&folder, &args.model);
            let measured = tasks::measure(args, &model, global)?;
            what = measured.what;
            row.push(cell(measured.number, 4));
            points.push(json!({
                "capacity": capacity, "tau": number(tau), "number": measured.number, "result": measured.json,
            }));
        }
        rows.push(row);
    }
    let mut head = vec![what.to_owned()];
    head.extend(grid.thresholds.iter().map(|tau| format!("τ {tau}")));
    Ok(Report {
        text: table(&head, &rows),
        json: json!({ "number": what, "grid": points }),
    })
}

/// Infinity, which JSON does not know as a number, is told in words.
fn number(tau: f32) -> Value {
    if tau.is_finite() {
        json!(tau)
    } else {
        json!(tau.to_string())
    }
}

fn at(folder: &Path, args: &ModelArgs) -> ModelArgs {
    ModelArgs {
        model: folder.to_owned(),
        weights: args.weights,
    }
}

/// A number with so many places, or a dash for none.
fn cell(number: Option<f64>, places: usize) -> String {
    number.map_or("–".to_owned(), |number| format!("{number:.places$}"))
}

/// Columns of equal width: the first one's words to the left, the others to the right.
fn table(head: &[String], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(Vec::as_slice).chain([head]);
        let cells = cells.map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |row: &[String]| {
        let cells = row.iter().zip(&widths).enumerate();
        let cells = cells.map(|(column, (cell, &width))| match column {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    let all = std::iter::once(line(head)).chain(rows.iter().map(|row| line(row)));
    all.collect()
}
