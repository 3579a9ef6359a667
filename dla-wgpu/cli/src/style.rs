//! How text for people tells memory states apart: by colour on terminals, by brackets elsewhere.

use crate::report;

/// Foreground colours of neighbouring states, from the terminal's 256.
const PALETTE: [u8; 6] = [75, 215, 114, 211, 185, 141];

/// How states are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// By colour, for terminals.
    Colour,
    /// By brackets.
    Plain,
}

impl Style {
    /// What fits stdout.
    pub fn of_stdout() -> Self {
        if report::colours() {
            Self::Colour
        } else {
            Self::Plain
        }
    }

    fn escape(self, code: &str, text: &str) -> String {
        match self {
            Self::Colour => format!("\x1b[{code}m{text}\x1b[0m"),
            Self::Plain => text.into(),
        }
    }

    /// Text of the state that is number `state` in time order.
    pub fn state(self, state: usize, text: &str) -> String {
        self.escape(&format!("38;5;{}", PALETTE[state % PALETTE.len()]), text)
    }

    /// What stands before the first text of a state: its number, counted from 1.
    pub fn label(self, state: usize) -> String {
        let number = state + 1;
        match self {
            Self::Colour => {
                self.escape(
                    &format!("1;7;38;5;{}", PALETTE[state % PALETTE.len()]),
                    &format!("{number}"),
                ) + " "
            }
            Self::Plain => format!("[{number} "),
        }
    }

    /// A heading.
    pub fn heading(self, text: &str) -> String {
        self.escape("1", text)
    }

    /// What may be passed over.
    pub fn faint(self, text: &str) -> String {
        self.escape("2", text)
    }
}
