//! Colours of states in pictures, for light and dark pages and for colour-blind readers.
//!
//! Neighbours always differ in lightness, and in one of six hues that take turns between cool and
//! warm. Text on every fill has a contrast of at least 5.9.

use dla_core::trace::ledger::LiveState;

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

/// The lightness and hue of each state, oldest first: a state keeps its hue while others merge, unless
/// its neighbour has the same.
pub(super) fn colours(states: &[LiveState]) -> Vec<(usize, usize)> {
    let mut last = HUES;
    let colour = |(i, state): (usize, &LiveState)| {
        let own = (state.id % HUES as u64) as usize;
        last = if own == last { (own + 1) % HUES } else { own };
        (i % 2, last)
    };
    states.iter().enumerate().map(colour).collect()
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

    #[test]
    fn neighbours_never_look_alike() {
        let state = |id| LiveState {
            id,
            start: 0,
            n: 1,
            info: 0.0,
        };
        let states: Vec<_> = [0, 1, 7, 12, 18, 19, 25].map(state).into();
        let colours = colours(&states);
        assert_eq!(colours.len(), states.len());
        for pair in colours.windows(2) {
            assert!(
                pair[0].0 != pair[1].0 && pair[0].1 != pair[1].1,
                "{colours:?}"
            );
        }
    }
}
