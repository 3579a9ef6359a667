//! The still picture: a strip for each layer and head over the positions of the text.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::palette::{self, Colour, DARK, LIGHT};
use super::reading::{Reading, Story};
use super::text::escape;

/// Where the strips begin, and their width.
const LEFT: f64 = 92.0;
const WIDTH: f64 = 960.0;
/// Width of the figures behind the strips.
const RIGHT: f64 = 108.0;
/// Heights: of all above the strips, of a layer's heading, of one head, of its parts.
const TOP: f64 = 92.0;
const LAYER: f64 = 26.0;
const ROW: f64 = 34.0;
const BARS: f64 = 8.0;
const STRIP: f64 = 14.0;
/// Width of a mark.
const MARK: f64 = 6.0;
/// The longest name shown.
const NAME: usize = 40;

const STYLE: &str = "\
:root{--page:#fbfaf8;--fg:#1d1f24;--faint:#5f646e;--line:#d5d1c8}
@media (prefers-color-scheme:dark){:root{--page:#14161a;--fg:#eceef2;--faint:#a2a9b5;--line:#3c424d}}
svg{background:var(--page)}
text{font:13px system-ui,sans-serif;fill:var(--faint)}
.t{font:600 26px ui-serif,Georgia,serif;fill:var(--fg)}
.l{font-weight:600;fill:var(--fg)}
.e{text-anchor:end}.m{text-anchor:middle}
.b{fill:var(--faint);opacity:.6}.k{fill:var(--fg)}
.a{stroke:var(--line);fill:none}
";

/// The whole file.
pub(super) fn picture(reading: &Reading) -> String {
    let strips = reading.layers as f64 * (LAYER + ROW * reading.heads as f64);
    let (width, height) = (LEFT + WIDTH + RIGHT, TOP + strips + 96.0);
    let name = |name: &str| escape(&short(name));
    let title = format!(
        "{}, as {} remembers it",
        name(&reading.file),
        name(&reading.model)
    );
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" role=\"img\" aria-labelledby=\"t d\">\n\
         <title id=\"t\">{title}</title>\n<desc id=\"d\">{}</desc>\n<style>{}</style>\n\
         <rect width=\"100%\" height=\"100%\" style=\"fill:var(--page)\"/>\n\
         <text class=\"t\" x=\"24\" y=\"46\">{title}</text>\n\
         <text x=\"24\" y=\"70\">{}</text>\n",
        "One strip for each layer and head over the tokens of the text, coloured by state.",
        style(),
        about(reading),
    );
    let mut y = TOP;
    for stories in reading.stories.chunks(reading.heads) {
        let _ = writeln!(
            out,
            "<text class=\"l\" x=\"24\" y=\"{}\">layer {}</text>",
            y + 18.0,
            stories[0].layer
        );
        y += LAYER;
        for story in stories {
            out += &strip(story, y);
            y += ROW;
        }
    }
    out + &axis(reading.text.ids.len(), y) + &legend(y + 66.0) + "</svg>\n"
}

/// The variables of both schemes and the classes that use them.
fn style() -> String {
    let all = (0..2).flat_map(|level| (0..palette::RING).map(move |hue| (level, hue)));
    let classes = all.map(|(level, hue)| {
        let fill = palette::css(&format!("c{level}"), hue);
        format!(".c{level}-{hue}{{fill:{fill}}}")
    });
    format!(
        ":root{{{}}}\n@media (prefers-color-scheme:dark){{:root{{{}}}}}\n{STYLE}{}",
        palette::strong_variables(&LIGHT),
        palette::strong_variables(&DARK),
        classes.collect::<String>()
    )
}

fn about(reading: &Reading) -> String {
    format!(
        "{} tokens, {} layers of {} heads, at most {} states in each, {} schedule",
        reading.text.ids.len(),
        reading.layers,
        reading.heads,
        reading.capacity,
        reading.schedule
    )
}

/// One head: the share of boundaries above, its states, its merges below, its figures.
fn strip(story: &Story, y: f64) -> String {
    let tokens = story.scores.len();
    let x = |token: f64| LEFT + WIDTH * token / tokens as f64;
    let (top, below) = (y + BARS + 2.0, y + BARS + STRIP + 3.0);
    let mut out = format!(
        "<g><title>layer {}, head {}: {} states, {} boundaries, {} merges</title>\
         <text class=\"e\" x=\"{}\" y=\"{}\">head {}</text>\
         <path class=\"b\" d=\"{}\"/>",
        story.layer,
        story.head,
        story.states.len(),
        story.opened.len(),
        story.merges.len(),
        LEFT - 10.0,
        top + STRIP - 3.0,
        story.head,
        bars(story, y + BARS),
    );
    for (state, Colour { hue, level }) in story.states.iter().zip(palette::colours(story)) {
        let (from, to) = (x(state.start as f64), x(state.tokens().end as f64));
        // A thin gap tells neighbours apart where there is room for it.
        let wide = to - from - if to - from > 3.0 { 0.7 } else { 0.0 };
        let _ = write!(
            out,
            "<rect class=\"c{level}-{hue}\" x=\"{from:.2}\" y=\"{top}\" width=\"{wide:.2}\" height=\"{STRIP}\"/>"
        );
    }
    let places = story.merges.iter().map(|merge| {
        let place = (f64::from(merge.token) + 0.5) * WIDTH / tokens as f64;
        (place / MARK) as u32
    });
    let marks: BTreeSet<u32> = places.collect();
    // Where nearly every column has one, they need not shout.
    let strength = 1.0 - 0.65 * marks.len() as f64 * MARK / WIDTH;
    let marks = marks.into_iter().map(|mark| {
        let middle = LEFT + (f64::from(mark) + 0.5) * MARK;
        format!("M{middle} {below}l2.5 5h-5z")
    });
    let _ = writeln!(
        out,
        "<path class=\"k\" opacity=\"{strength:.2}\" d=\"{}\"/><text x=\"{}\" y=\"{}\">{} · {:.1}%</text></g>",
        marks.collect::<String>(),
        LEFT + WIDTH + 12.0,
        top + STRIP - 3.0,
        story.states.len(),
        100.0 * story.rate(),
    );
    out
}

/// In each column of tokens, a bar up from `bottom` as high as the share of them that opened a state.
fn bars(story: &Story, bottom: f64) -> String {
    let tokens = story.scores.len();
    let columns = tokens.min(WIDTH as usize / 2);
    let wide = WIDTH / columns as f64;
    let first = |column: usize| column * tokens / columns;
    let mut path = String::new();
    let mut opened = story.opened.iter().peekable();
    for column in 0..columns {
        let end = first(column + 1);
        let mut count = 0;
        while opened.next_if(|&&token| (token as usize) < end).is_some() {
            count += 1;
        }
        if count > 0 {
            let share = f64::from(count) / (end - first(column)) as f64;
            let (x, tall) = (LEFT + wide * column as f64, 2.0 + (BARS - 2.0) * share);
            let shown = wide.min(3.0);
            let _ = write!(path, "M{x:.1} {bottom}v-{tall:.1}h{shown:.1}v{tall:.1}z");
        }
    }
    path
}

fn axis(tokens: usize, y: f64) -> String {
    let end = LEFT + WIDTH;
    let mut out = format!("<path class=\"a\" d=\"M{LEFT} {y}H{end}");
    let step = tick(tokens);
    let ticks: Vec<usize> = (0..tokens).step_by(step).collect();
    let x = |token: usize| LEFT + WIDTH * token as f64 / tokens as f64;
    for &token in &ticks {
        let _ = write!(out, "M{:.1} {y}v5", x(token));
    }
    out += "\"/>";
    for token in ticks {
        let _ = write!(
            out,
            "<text class=\"m\" x=\"{:.1}\" y=\"{}\">{token}</text>",
            x(token),
            y + 20.0
        );
    }
    let _ = writeln!(
        out,
        "<text x=\"{}\" y=\"{}\">token</text>",
        end + 12.0,
        y + 5.0
    );
    out
}

/// The round distance, 1, 2 or 5 and zeros, that gives at most twelve ticks.
fn tick(tokens: usize) -> usize {
    let rounds = (0..).flat_map(|power| [1, 2, 5].map(|digit| digit * 10usize.pow(power)));
    let mut few = rounds.skip_while(|step| tokens > 12 * step);
    few.next().unwrap_or(tokens)
}

fn legend(y: f64) -> String {
    let mut out = String::from("<g>");
    let mut x = LEFT;
    let mut entry = |sign: String, words: &str| {
        let _ = write!(
            out,
            "{sign}<text x=\"{}\" y=\"{y}\">{words}</text>",
            x + 38.0
        );
        x += 62.0 + 6.6 * words.len() as f64;
    };
    let (left, top) = (LEFT, y - 11.0);
    entry(
        format!(
            "<rect class=\"c0-16\" x=\"{left}\" y=\"{top}\" width=\"15\" height=\"{STRIP}\"/>\
             <rect class=\"c1-4\" x=\"{}\" y=\"{top}\" width=\"15\" height=\"{STRIP}\"/>",
            left + 15.0
        ),
        "states at the end, oldest first",
    );
    let bars = left + 62.0 + 6.6 * 31.0;
    entry(
        format!("<path class=\"b\" d=\"M{bars} {y}v-4h3v4zm7 0v-8h3v8zm7 0v-3h3v3z\"/>"),
        "share of tokens that opened one",
    );
    let mark = bars + 62.0 + 6.6 * 31.0;
    entry(
        format!(
            "<path class=\"k\" d=\"M{} {}l2.5 5h-5z\"/>",
            mark + 14.0,
            y - 8.0
        ),
        "neighbours merged to make room",
    );
    out += "</g>\n";
    out + &format!(
        "<text class=\"e\" x=\"{}\" y=\"{y}\">states · boundary rate</text>\n",
        LEFT + WIDTH + RIGHT - 12.0
    )
}

/// A name cut to what fits a title.
fn short(name: &str) -> String {
    if name.chars().count() <= NAME {
        return name.to_owned();
    }
    name.chars().take(NAME - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::tick;

    #[test]
    fn ticks_are_round_and_few() {
        for (tokens, step) in [
            (1, 1),
            (12, 1),
            (24, 2),
            (60, 5),
            (120, 10),
            (1000, 100),
            (100_000, 10_000),
        ] {
            assert_eq!(tick(tokens), step, "{tokens}");
        }
    }
}
