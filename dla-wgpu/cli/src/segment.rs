//! `dla segment`: where a model's memory states open and merge in a text.
//!
//! Everything shown comes from the scores and decisions that a run reports
//! ([`ledger`](dla_core::trace::ledger)): printed text, JSON and pictures tell the same events.

mod html;
mod palette;
pub mod picture;
pub mod reading;
mod svg;
pub mod text;
mod told;

use dla_core::model::ModelConfig;
use dla_core::{Error, Result};

use crate::args::{Global, Segment};
use crate::atomic;
use crate::report::Report;
use crate::runner::Runner;
use crate::style::Style;
use picture::Picture;
use reading::Reading;
use text::Text;

/// Runs the model over the text, draws the picture if one is wanted, tells of one head at length and
/// of all in a table.
///
/// # Errors
/// When model, text, layer, head or picture are refused, the run fails or the picture cannot be
/// written; no picture appears then.
pub fn run(args: &Segment, global: &Global) -> Result<Report> {
    let picture = args.picture.as_deref().map(Picture::of).transpose()?;
    let folder = &args.model.model;
    let runner = Runner::load(&args.model, global)?;
    check_choice(args, runner.config())?;
    let text = Text::read(&args.text_file, folder, runner.config())?;
    let reading = Reading::new(&runner, text, [folder, &args.text_file])?;
    let chosen = reading.most_telling(args.layer, args.head);
    if let Some(picture) = picture {
        atomic::write(picture.path, picture.draw(&reading, chosen).as_bytes())?;
    }
    let asked = args.layer.is_some() || args.head.is_some();
    let path = args.picture.as_deref();
    Ok(Report {
        text: told::text(&reading, chosen, asked, path, Style::of_stdout()),
        json: if global.json {
            told::json(&reading, chosen, path)
        } else {
            serde_json::Value::Null
        },
    })
}

/// The text in the colours or brackets of the states that hold it at the end, by the head that is story `chosen`.
pub fn passage(reading: &Reading, chosen: usize, style: Style) -> String {
    told::coloured(&reading.stories[chosen], reading, style)
}

/// A table of that head's states.
pub fn states(reading: &Reading, chosen: usize, style: Style) -> String {
    told::states(&reading.stories[chosen], style)
}

/// Everything, token by token.
pub fn json(reading: &Reading, chosen: usize) -> serde_json::Value {
    told::json(reading, chosen, None)
}

/// Refuses a layer or head that the model does not have, before anything is run.
fn check_choice(args: &Segment, config: &ModelConfig) -> Result<()> {
    let (layers, heads) = (config.layers, config.dims().heads);
    for (option, asked, count) in [
        ("--layer", args.layer, layers),
        ("--head", args.head, heads),
    ] {
        if let Some(asked) = asked.filter(|&asked| asked >= count) {
            let expected = format!("0 to {}", count - 1);
            return Err(Error::input("segment", option, expected, asked));
        }
    }
    Ok(())
}
