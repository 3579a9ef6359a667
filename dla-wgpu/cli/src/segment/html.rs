//! The page: the text by state, scores, merges, caches, for every layer and head.
//!
//! `segment.js` follows each head's events as [`ledger`](dla_core::trace::ledger) does, so the page
//! holds the events only: numbers as base64 of variable-length differences, scores as 16 bits.

use serde_json::{Value, json};

use super::palette::{self, DARK, LIGHT};
use super::reading::{Reading, Story};
use super::text::{escape, visible};

const PAGE: &str = include_str!("../../assets/segment/page.html");
const STYLE: &str = include_str!("../../assets/segment/page.css");
/// In order: colours, what is read, what is drawn, what is done.
const SCRIPTS: [&str; 4] = [
    include_str!("../../assets/segment/colours.js"),
    include_str!("../../assets/segment/story.js"),
    include_str!("../../assets/segment/draw.js"),
    include_str!("../../assets/segment/page.js"),
];
/// The code of a score that is not finite.
const NOT_FINITE: u16 = u16::MAX;

/// The whole file.
pub(super) fn page(reading: &Reading, chosen: usize) -> String {
    let title = format!("{}, as {} remembers it", reading.file, reading.model);
    // Inside a script element only `<` could end the data.
    let data = data(reading, chosen).to_string().replace('<', "\\u003c");
    let colours = format!(
        ":root{{{}}}\n@media (prefers-color-scheme:dark){{:root{{{}}}}}\n",
        palette::variables(&LIGHT),
        palette::variables(&DARK)
    );
    // What users gave comes last, so that nothing in it is taken for a place to fill.
    let mut page = PAGE.replace("{{style}}", &(colours + STYLE));
    // They are one script here, no modules.
    let script = SCRIPTS.concat().replace("\nexport ", "\n");
    page = page.replace("{{script}}", &format!("\"use strict\";\n{script}"));
    let (head, tail) = page.split_once("{{data}}").unwrap_or((&page, ""));
    format!("{}{data}{tail}", head.replace("{{title}}", &escape(&title)))
}

fn data(reading: &Reading, chosen: usize) -> Value {
    let pieces = &reading.text.pieces;
    let shown: Vec<String> = pieces.iter().map(|piece| visible(&piece.text)).collect();
    let lengths = shown.iter().map(|text| text.encode_utf16().count());
    json!({
        "file": visible(&reading.file),
        "model": visible(&reading.model),
        "layers": reading.layers,
        "heads": reading.heads,
        "capacity": reading.capacity,
        "schedule": reading.schedule,
        "chosen": chosen,
        "text": shown.concat(),
        "lengths": runs(lengths),
        "tokens": runs(pieces.iter().map(|piece| piece.tokens)),
        "stories": reading.stories.iter().map(story).collect::<Vec<_>>(),
    })
}

fn story(story: &Story) -> Value {
    let finite = story
        .scores
        .iter()
        .copied()
        .filter(|score| score.is_finite());
    let scale = finite.fold(0.0, f32::max);
    let tau = story.tau.filter(|tau| tau.is_finite());
    json!({
        "tau": tau,
        "scale": scale,
        "score": if scale > 0.0 { scores(&story.scores, scale) } else { String::new() },
        "opened": base64(&differences(story.opened.iter().map(|&token| (token, None)))),
        "merged": base64(&differences(
            story.merges.iter().map(|merge| (merge.token, Some(merge.at as u8))),
        )),
        "rate": (story.rate() * 1e4).round() / 1e4,
        "mean": (story.mean_score() * 1e4).round() / 1e4,
        "states": story.states.len(),
    })
}

/// Each score's share of `scale` in 16 bits.
fn scores(scores: &[f32], scale: f32) -> String {
    let most = f32::from(NOT_FINITE - 1);
    let code = |&score: &f32| match score {
        score if score.is_finite() => (score.max(0.0) / scale * most).round() as u16,
        _ => NOT_FINITE,
    };
    let bytes: Vec<u8> = scores.iter().map(code).flat_map(u16::to_le_bytes).collect();
    base64(&bytes)
}

/// Run lengths: count, value, count, value, …
fn runs(values: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut runs: Vec<usize> = Vec::new();
    for value in values {
        match runs.last_chunk_mut::<2>() {
            Some([count, last]) if *last == value => *count += 1,
            _ => runs.extend([1, value]),
        }
    }
    runs
}

/// Rising numbers as differences in 7-bit groups, low ones first; each may have a byte behind it.
fn differences(values: impl Iterator<Item = (u32, Option<u8>)>) -> Vec<u8> {
    let (mut bytes, mut last) = (Vec::new(), 0);
    for (value, behind) in values {
        let mut rest = value - last;
        while rest > 0x7f {
            bytes.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        bytes.push(rest as u8);
        bytes.extend(behind);
        last = value;
    }
    bytes
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |i: usize| u32::from(chunk.get(i).copied().unwrap_or_default());
        let word = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            out.push(match digit <= chunk.len() {
                true => DIGITS[(word >> (18 - 6 * digit)) as usize & 63].into(),
                false => '=',
            });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_by_hand() {
        assert_eq!(
            ["", "f", "fo", "foo", "foob"].map(|s| base64(s.as_bytes())),
            ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="]
        );
        assert_eq!(runs([1, 1, 3, 1].into_iter()), [2, 1, 1, 3, 1, 1]);
        let rising = [(3, Some(9)), (3, Some(8)), (303, Some(7))];
        assert_eq!(differences(rising.into_iter()), [3, 9, 0, 8, 0xac, 2, 7]);
        assert_eq!(
            scores(&[0.0, 2.0, f32::NAN], 2.0),
            base64(&[0, 0, 0xfe, 0xff, 0xff, 0xff])
        );
    }
}
