//! The drawing: the text by state, the scores as a strip, the openings, the states at the end.

use std::fmt::Write;

use super::story::{Opening, State, Story};
use super::{CAPACITY, Reading};
use crate::style::Style;

/// Words to a column of the strips.
const WORDS_PER_COLUMN: usize = 5;
/// Heights of the score strip, from a head's lowest column to its highest.
const HEIGHTS: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
/// Width of the largest state's bar.
const BAR: usize = 24;
/// The whole demonstration; the first head is told at length.
pub fn draw(reading: &Reading, style: Style) -> String {
    let mut page = introduction(reading, style);
    let mut section = |heading: &str, body: String| {
        page += &format!("\n{}\n\n{body}", style.heading(heading));
    };
    if let Some(story) = reading.stories.first() {
        section(
            "The text, by the state that holds each word at the end",
            text(story, reading, style),
        );
        section("How it came about", openings(story, reading, style));
        section("What is remembered", states(story, reading, style));
    }
    section("Two heads, two segmentations", strips(reading, style));
    section("Nothing is lost", conclusion(reading));
    page.lines()
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect()
}

fn introduction(reading: &Reading, style: Style) -> String {
    format!(
        "{}\n\n\
         Linear attention remembers all it has read in one state. Here each head may keep {CAPACITY}: a word\n\
         unlike the newest state opens another one, and when there is no room the two neighbours\n\
         with the least information per word merge.\n\n\
         No trained model is at work yet: keys and values are hashed letters of the last few words,\n\
         so states open where the spelling changes. The operator is the real one; it ran on {}.\n",
        style.heading("Dynamic Linear Attention reads four passages"),
        reading.device,
    )
}

/// The words, in the colour or the brackets of the state that holds them at the end.
fn text(story: &Story, reading: &Reading, style: Style) -> String {
    let mut text = String::from("  ");
    for (word, spelled) in reading.words.iter().enumerate() {
        let state = story.state_of(word);
        text += &match story.opening_at(word) {
            Some(opening) if story.survives(opening) => style.label(state),
            Some(_) => style.faint("¦"),
            None => String::new(),
        };
        let bare = spelled.trim_end();
        text += &style.state(state, bare);
        if style == Style::Plain && story.states[state].words.end == word + 1 {
            text.push(']');
        }
        text += &spelled[bare.len()..].replace('\n', "\n  ");
    }
    let legend = match style {
        Style::Colour => "  ¦ a state opened here and was merged later",
        Style::Plain => "  [1 …] the words of state 1; ¦ a state opened here and was merged later",
    };
    format!("{}\n\n{}\n", text.trim_end(), style.faint(legend))
}

fn openings(story: &Story, reading: &Reading, style: Style) -> String {
    let mut lines = String::new();
    let mut live = 0;
    for opening in &story.openings {
        live += usize::from(opening.merged.is_none());
        let word = reading.words[opening.word].trim_end();
        let _ = writeln!(
            lines,
            "  word {:>3}  {word:<11}  score {:.2}  {}",
            opening.word + 1,
            opening.score,
            deed(opening, live, style),
        );
    }
    lines
}

fn deed(opening: &Opening, live: usize, style: Style) -> String {
    match opening.merged {
        _ if opening.word == 0 => "opens the first state".into(),
        None => format!("opens state {live}"),
        Some(older) => format!(
            "opens state {live}; {}",
            style.faint(&format!(
                "no room, so states {} and {} merge",
                older + 1,
                older + 2
            )),
        ),
    }
}

fn states(story: &Story, reading: &Reading, style: Style) -> String {
    let heading = format!(
        "  state  words  {:<width$}  information per word",
        "",
        width = BAR
    );
    let mut lines = style.faint(&heading) + "\n";
    let sizes = story.states.iter().map(|state| state.words.len());
    let most = sizes.max().unwrap_or(1);
    for (number, state) in story.states.iter().enumerate() {
        let words = state.words.len();
        let bar = "█".repeat((words * BAR).div_ceil(most));
        let row = format!("{:>5}  {words:>5}  {bar:<BAR$}", number + 1);
        let _ = writeln!(
            lines,
            "  {}  {:.2}  {}",
            style.state(number, &row),
            state.density,
            excerpt(state, reading)
        );
    }
    lines
}

/// How a state's words begin and end.
fn excerpt(state: &State, reading: &Reading) -> String {
    const SHOWN: usize = 3;
    let said = |words: &[&str]| {
        words
            .concat()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    let words = &reading.words[state.words.clone()];
    if words.len() <= 2 * SHOWN {
        return said(words);
    }
    format!(
        "{} … {}",
        said(&words[..SHOWN]),
        said(&words[words.len() - SHOWN..])
    )
}

fn strips(reading: &Reading, style: Style) -> String {
    let mut lines = String::new();
    for story in &reading.stories {
        let _ = writeln!(lines, "  {:<6} {}", story.name, score_strip(story, style));
        let _ = writeln!(lines, "  {:<6} {}", "", opening_strip(story));
    }
    let legend = [
        format!("  a column is {WORDS_PER_COLUMN} words: their highest score, coloured by state"),
        "  ▲ a state opened here; △ and was merged later".into(),
    ];
    lines + &style.faint(&legend.join("\n")) + "\n"
}

fn score_strip(story: &Story, style: Style) -> String {
    let most = |scores: &[f32]| scores.iter().copied().fold(0.0, f32::max);
    let columns: Vec<f32> = story.scores.chunks(WORDS_PER_COLUMN).map(most).collect();
    let least = columns.iter().copied().fold(f32::INFINITY, f32::min);
    let step = (most(&columns) - least).max(f32::EPSILON) / HEIGHTS.len() as f32;
    let drawn = columns.iter().enumerate().map(|(column, score)| {
        let height = ((score - least) / step) as usize;
        let last = (column + 1) * WORDS_PER_COLUMN - 1;
        let state = story.state_of(last.min(story.scores.len() - 1));
        style.state(state, HEIGHTS[height.min(HEIGHTS.len() - 1)])
    });
    drawn.collect()
}

fn opening_strip(story: &Story) -> String {
    let columns = story.scores.len().div_ceil(WORDS_PER_COLUMN);
    let mark = |column: usize| {
        let inside = story
            .openings
            .iter()
            .filter(|opening| opening.word / WORDS_PER_COLUMN == column);
        inside.fold(' ', |mark, opening| match mark {
            '▲' => mark,
            _ if story.survives(opening) => '▲',
            _ => '△',
        })
    };
    (0..columns).map(mark).collect()
}

fn conclusion(reading: &Reading) -> String {
    format!(
        "Read with all weights 1, the states add up to the single state of linear attention: the\n\
         outputs differ by at most {:.1e}. A trained model learns a weight for each state.\n\n\
         Next: `dla devices`, `dla op --help`.\n",
        reading.single_state_difference,
    )
}
