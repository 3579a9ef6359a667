//! The reading told: the text with its boundaries and a table for people, every token for machines.

use std::fmt::Write;
use std::path::Path;

use serde_json::{Value, json};

use super::reading::{Reading, Story};
use super::text::visible;
use crate::style::Style;

/// Width of the largest state's bar.
const BAR: usize = 24;

/// One head at length, all in a table.
pub(super) fn text(
    reading: &Reading,
    chosen: usize,
    asked: bool,
    picture: Option<&Path>,
    style: Style,
) -> String {
    let story = &reading.stories[chosen];
    let mut page = style.heading(&format!(
        "{} by the states of layer {}, head {} of {}",
        visible(&reading.file),
        story.layer,
        story.head,
        visible(&reading.model)
    ));
    if !asked {
        page += &style.faint("\nthe most telling head; --layer and --head choose others");
    }
    page += &format!("\n\n{}\n\n", coloured(story, reading, style));
    page += &format!("{}\n", states(story, style));
    page += &format!(
        "{}\n\n{}",
        style.heading("All layers and heads"),
        table(reading, style)
    );
    if let Some(path) = picture {
        page += &format!("\nPicture: {}", path.display());
    }
    page
}

/// The text in the colours or brackets of the states that hold it at the end.
pub(super) fn coloured(story: &Story, reading: &Reading, style: Style) -> String {
    let mut opened = story.opened.iter().peekable();
    let (mut out, mut run, mut number) = (String::from("  "), String::new(), 0);
    let close = |out: &mut String, run: &mut String, number: usize, ends: bool| {
        let run = std::mem::take(run);
        let (words, blank) = run.split_at(run.trim_end_matches('\n').len());
        let bracket = if ends && style == Style::Plain {
            "]"
        } else {
            ""
        };
        let words = style.state(number, &words.replace('\n', "\n  "));
        *out += &format!("{words}{bracket}{}", blank.replace('\n', "\n  "));
    };
    for (at, piece) in reading.text.placed() {
        let end = at + piece.tokens;
        // A state that opens inside a character is shown before it.
        while let Some(&token) = opened.next_if(|&&token| (token as usize) < end) {
            let state = story.state_of(token as usize);
            if story.states[state].start == u64::from(token) {
                close(&mut out, &mut run, number, at > 0);
                number = state;
                out += &style.label(state);
            } else {
                close(&mut out, &mut run, number, false);
                out += &style.faint("¦");
            }
        }
        run += &visible(&piece.text);
    }
    close(&mut out, &mut run, number, true);
    let lines: Vec<_> = out.lines().map(str::trim_end).collect();
    let legend = match style {
        Style::Colour => "  ¦ a state opened here and was merged later",
        Style::Plain => "  [1 …] the text of state 1; ¦ a state opened here and was merged later",
    };
    format!("{}\n\n{}", lines.join("\n").trim_end(), style.faint(legend))
}

pub(super) fn states(story: &Story, style: Style) -> String {
    let heading = format!("  state  tokens  {:<BAR$}  information per token", "");
    let mut lines = style.faint(&heading) + "\n";
    let most = story.states.iter().map(|state| state.n).max().unwrap_or(1);
    for (number, state) in story.states.iter().enumerate() {
        let width = (state.n as usize * BAR).div_ceil(most as usize);
        let row = format!(
            "{:>5}  {:>6}  {:<BAR$}",
            number + 1,
            state.n,
            "█".repeat(width)
        );
        let _ = writeln!(
            lines,
            "  {}  {:.3}",
            style.state(number, &row),
            state.density()
        );
    }
    lines
}

fn table(reading: &Reading, style: Style) -> String {
    let heading = "  layer  head  states  boundaries  merges    rate  mean score";
    let mut lines = style.faint(heading) + "\n";
    for story in &reading.stories {
        let _ = write!(
            lines,
            "  {:>5}  {:>4}  {:>6}  {:>10}  {:>6}  {:>5.1}%  {:>10.3}",
            story.layer,
            story.head,
            story.states.len(),
            story.opened.len(),
            story.merges.len(),
            100.0 * story.rate(),
            story.mean_score(),
        );
        if story.non_finite() > 0 {
            let _ = write!(lines, "  {} scores not finite", story.non_finite());
        }
        lines.push('\n');
    }
    lines
}

/// Everything, token by token.
pub(super) fn json(reading: &Reading, chosen: usize, picture: Option<&Path>) -> Value {
    let story = &reading.stories[chosen];
    json!({
        "model": reading.model,
        "text_file": reading.file,
        "backend": reading.backend,
        "tokens": reading.text.ids.len(),
        "layers": reading.layers,
        "heads": reading.heads,
        "capacity": reading.capacity,
        "schedule": reading.schedule,
        "chosen": { "layer": story.layer, "head": story.head },
        "picture": picture.map(|path| path.display().to_string()),
        "ids": reading.text.ids,
        "pieces": pieces(reading),
        "segmentations": reading.stories.iter().map(story_json).collect::<Vec<_>>(),
    })
}

/// One string a token; a character of several tokens stands at its first.
fn pieces(reading: &Reading) -> Vec<&str> {
    let pieces = reading.text.pieces.iter();
    let rows = pieces.flat_map(|piece| {
        let rest = std::iter::repeat_n("", piece.tokens - 1);
        std::iter::once(&piece.text[..]).chain(rest)
    });
    rows.collect()
}

fn story_json(story: &Story) -> Value {
    let column = |value: fn(&super::reading::Merge) -> Value| -> Vec<Value> {
        story.merges.iter().map(value).collect()
    };
    json!({
        "layer": story.layer,
        "head": story.head,
        "tau": story.tau,
        "states": story.states.len(),
        "boundaries": story.opened.len(),
        "merges": story.merges.len(),
        "boundary_rate": story.rate(),
        "mean_score": story.mean_score(),
        "non_finite": story.non_finite(),
        "score": story.scores,
        "state": written(story),
        "merged": {
            "token": column(|merge| merge.token.into()),
            "older": column(|merge| merge.ids[0].into()),
            "newer": column(|merge| merge.ids[1].into()),
            "n": column(|merge| merge.n[0].saturating_add(merge.n[1]).into()),
            "density": column(|merge| merge.density.into()),
        },
        "live": story.states,
    })
}

/// The state that each token was written to, by name: a new name is a boundary.
fn written(story: &Story) -> Vec<u64> {
    let mut opened = story.opened.iter().peekable();
    let mut state = 0;
    let tokens = 0..story.scores.len();
    tokens
        .map(|token| {
            if opened.next_if(|&&at| at as usize == token).is_some() && token > 0 {
                state += 1;
            }
            state
        })
        .collect()
}
