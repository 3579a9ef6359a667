//! Colours of states in pictures, for light and dark pages and for colour-blind readers.
//!
//! States open in six hues that take turns between cool and warm, and in two lightnesses; merged ones have hues between.
//! Text on every fill has a contrast of at least 5.9.

use super::reading::{Merge, Story};

/// Hues.
pub(super) const HUES: usize = 6;

/// A scheme's colours.
#[derive(Debug)]
pub(super) struct Scheme {
    /// Behind text, `[lightness][hue]`.
    pub(super) fill: [[&'static str; HUES]; 2],
    /// For lines and bars, `[hue]`.
    pub(super) ink: [&'static str; HUES],
}

/// On light pages.
pub(super) const LIGHT: Scheme = Scheme {
    fill: [
        [
            "#d1e5ff", "#fedcbc", "#abf4e5", "#ffd6e8", "#e7ddfe", "#e1eab0",
        ],
        [
            "#91c1ff", "#f3ad66", "#52d7c1", "#f89dc9", "#c9acff", "#bbc769",
        ],
    ],
    ink: [
        "#3475c4", "#a66200", "#008877", "#af4d80", "#825eb9", "#737c03",
    ],
};

/// On dark pages.
pub(super) const DARK: Scheme = Scheme {
    fill: [
        [
            "#143257", "#4a2800", "#003b33", "#4d1f37", "#382752", "#313500",
        ],
        [
            "#2b5991", "#7e4a00", "#02675a", "#823d60", "#614989", "#575e00",
        ],
    ],
    ink: [
        "#7cb4fc", "#e5a059", "#42cab4", "#ea91bc", "#bd9ff2", "#afba5c",
    ],
};

/// Steps around the ring of hues; every fourth is a hue of the palette, those between are mixed from two.
pub(super) const RING: usize = 24;
const BETWEEN: usize = RING / HUES;
/// The palette's hues around the ring: pink, orange, olive, teal, blue, violet.
const ORDER: [usize; HUES] = [3, 1, 5, 2, 0, 4];
/// Steps beyond which neighbours are told apart at a glance.
const APART: usize = 4;
/// Steps that another lightness is worth.
const LIGHTER: usize = 2;

/// The colour of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Colour {
    /// A step of the ring.
    pub(super) hue: usize,
    /// 0 or 1.
    pub(super) level: usize,
}

/// Steps between two hues, the shorter way.
fn away(a: usize, b: usize) -> usize {
    let forth = (a + RING - b) % RING;
    forth.min(RING - forth)
}

impl Colour {
    /// That of state `id`, which opens behind state `last`, which came after `before`.
    fn opened(id: usize, last: Option<Self>, before: Option<Self>) -> Self {
        let mut best = (0, None);
        for i in 0..HUES {
            let place = ORDER.iter().position(|&hue| hue == (id + i) % HUES);
            let hue = BETWEEN * place.unwrap_or_default();
            let room = last.map_or(0, |last| away(hue, last.hue).min(2 * APART))
                + before.map_or(0, |before| away(hue, before.hue).min(APART));
            if best.1.is_none_or(|most| room > most) {
                best = (hue, Some(room));
            }
        }
        let level = last.map_or(0, |last| 1 - last.level);
        Self { hue: best.0, level }
    }

    /// That of two states with `counts` tokens which became one between `neighbours`: it lies between the two, by
    /// their tokens; where a neighbour has that colour, as near to it as can be.
    fn blended(older: Self, newer: Self, counts: [u64; 2], neighbours: &[Self]) -> Self {
        let tokens = counts[0] + counts[1];
        let forth = (newer.hue + RING - older.hue) % RING;
        let (arc, step) = match forth <= RING / 2 {
            true => (forth, 1),
            false => (RING - forth, RING - 1),
        };
        let share = ((2 * arc as u64 * counts[1] + tokens) / (2 * tokens)) as usize;
        let own = match counts[0] >= counts[1] {
            true => older.level,
            false => newer.level,
        };
        let mut best = (older, None, 0);
        for at in 0..=arc {
            for level in [own, 1 - own] {
                let hue = (older.hue + at * step) % RING;
                let lighter = |other: &Self| if level == other.level { 0 } else { LIGHTER };
                let apart = neighbours
                    .iter()
                    .map(|other| away(hue, other.hue) + lighter(other));
                let room = apart.fold(APART, usize::min);
                let cost = at.abs_diff(share) + if level == own { 0 } else { LIGHTER + 1 };
                let better = |most| room > most || (room == most && cost < best.2);
                if best.1.is_none_or(better) {
                    best = (Self { hue, level }, Some(room), cost);
                }
            }
        }
        best.0
    }
}

/// The colours of a story's states at its end, oldest first. A state keeps the colour it opened with; a merge blends
/// the two and leaves the others as they are. `colours.js` has the same rule.
pub(super) fn colours(story: &Story) -> Vec<Colour> {
    let mut live: Vec<Colour> = Vec::new();
    let mut merges = story.merges.iter().peekable();
    let merge = |live: &mut Vec<Colour>, merge: &Merge| {
        let (at, n) = (merge.at, merge.n.map(u64::from));
        let older = at.checked_sub(1).map(|i| live[i]);
        let younger = live.get(at + 2).copied();
        let neighbours: Vec<Colour> = older.into_iter().chain(younger).collect();
        let colour = Colour::blended(live[at], live[at + 1], n, &neighbours);
        live.remove(at + 1);
        live[at] = colour;
    };
    for (id, &token) in story.opened.iter().enumerate() {
        while let Some(next) = merges.next_if(|next| next.token <= token) {
            merge(&mut live, next);
        }
        let mut back = live.iter().rev().copied();
        let (last, before) = (back.next(), back.next());
        live.push(Colour::opened(id, last, before));
    }
    merges.for_each(|next| merge(&mut live, next));
    live
}

/// A row of the palette, `c0`, `c1` or `i`, at a step of the ring, in CSS.
pub(super) fn css(row: &str, hue: usize) -> String {
    let [first, next] = [0, 1].map(|i| ORDER[(hue / BETWEEN + i) % HUES]);
    match 100 * (hue % BETWEEN) / BETWEEN {
        0 => format!("var(--{row}{first})"),
        share => {
            format!("color-mix(in srgb, var(--{row}{next}) {share}%, var(--{row}{first}))")
        }
    }
}

/// The colours as CSS variables `--c{lightness}{hue}` and `--i{hue}`.
pub(super) fn variables(scheme: &Scheme) -> String {
    let fills = scheme.fill.iter().enumerate().flat_map(|(l, row)| {
        let row = row.iter().enumerate();
        row.map(move |(h, colour)| format!("--c{l}{h}:{colour};"))
    });
    let inks = scheme.ink.iter().enumerate();
    let inks = inks.map(|(h, colour)| format!("--i{h}:{colour};"));
    fills.chain(inks).collect()
}

/// The same variables for areas without text: the stronger fill and the ink take turns.
pub(super) fn strong_variables(scheme: &Scheme) -> String {
    let rows = [&scheme.fill[1], &scheme.ink].into_iter().enumerate();
    let fills = rows.flat_map(|(l, row)| {
        let row = row.iter().enumerate();
        row.map(move |(h, colour)| format!("--c{l}{h}:{colour};"))
    });
    fills.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn story(opened: &[u32], merges: &[(u32, usize, [u32; 2])]) -> Story {
        let merge = |&(token, at, n): &(u32, usize, [u32; 2])| Merge {
            token,
            at,
            n,
            ids: [0; 2],
            density: 0.0,
        };
        Story {
            opened: opened.to_vec(),
            merges: merges.iter().map(merge).collect(),
            ..Story::default()
        }
    }

    #[test]
    fn kind_60_a_merge_blends_two_states_and_recolours_no_other() {
        let before = colours(&story(&[0, 4, 8, 12], &[]));
        for at in 0..3 {
            let after = colours(&story(&[0, 4, 8, 12], &[(16, at, [4, 4])]));
            assert_eq!(before[..at], after[..at]);
            assert_eq!(before[at + 2..], after[at + 1..]);
            let (older, newer) = (before[at].hue, before[at + 1].hue);
            let arc = away(older, newer);
            let ways = [away(older, after[at].hue), away(after[at].hue, newer)];
            assert_eq!(ways.iter().sum::<usize>(), arc, "{before:?} {after:?}");
            assert!(ways.iter().all(|&way| way > 0), "{before:?} {after:?}");
        }
        // A single token hardly changes a large state.
        let after = colours(&story(&[0, 400, 401], &[(402, 0, [400, 1])]));
        assert_eq!(after[0], colours(&story(&[0], &[]))[0]);
    }

    #[test]
    fn neighbours_never_look_alike() {
        let (mut live, mut opened, mut merges) = (Vec::<u32>::new(), Vec::new(), Vec::new());
        let mut random = 1u32;
        for token in 0..2000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let opens = live.is_empty() || random >> 30 == 0;
            if opens && live.len() == 12 {
                let at = (random >> 8) as usize % 11;
                merges.push((token, at, [live[at], live[at + 1]]));
                live[at] += live.remove(at + 1);
            }
            match live.last_mut() {
                Some(last) if !opens => *last += 1,
                _ => {
                    opened.push(token);
                    live.push(1);
                }
            }
            let colours = colours(&story(&opened, &merges));
            assert_eq!(colours.len(), live.len());
            for pair in colours.windows(2) {
                let lighter = LIGHTER * usize::from(pair[0].level != pair[1].level);
                let apart = away(pair[0].hue, pair[1].hue) + lighter;
                assert!(apart >= APART - 1, "{colours:?}");
            }
        }
    }
}
