//! Text that ends at a stop string.

use dla_core::{Error, Result};

/// Lets text through until a stop string has come, which is not let through.
///
/// What could be the beginning of a stop string is held back. The stop string that is complete first
/// counts, of those complete at once the longest; so the pieces that the text comes in do not matter.
///
/// ```
/// use dla_text::Stop;
/// let mut stop = Stop::new(["\n\n".to_owned()])?;
/// assert_eq!(stop.push("one\n"), "one");
/// assert_eq!(stop.push("two\n"), "\ntwo");
/// assert_eq!(stop.push("\nthree"), "");
/// assert_eq!(stop.hit(), Some("\n\n"));
/// # Ok::<(), dla_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Stop {
    strings: Vec<String>,
    held: String,
    hit: Option<usize>,
}

impl Stop {
    /// Stops at any of `strings`; none let everything through.
    ///
    /// # Errors
    /// For an empty one.
    pub fn new(strings: impl IntoIterator<Item = String>) -> Result<Self> {
        let strings: Vec<String> = strings.into_iter().collect();
        if strings.iter().any(String::is_empty) {
            let got = "an empty one";
            return Err(Error::input("stop", "stop strings", "some text", got));
        }
        Ok(Self {
            strings,
            held: String::new(),
            hit: None,
        })
    }

    /// Takes `text` in; gives what is certain to lie before any stop string.
    pub fn push(&mut self, text: &str) -> String {
        if self.hit.is_some() {
            return String::new();
        }
        self.held.push_str(text);
        if let Some((start, hit)) = self.first() {
            self.hit = Some(hit);
            self.held.truncate(start);
            return std::mem::take(&mut self.held);
        }
        let held = self.held.split_off(self.held.len() - self.beginning());
        std::mem::replace(&mut self.held, held)
    }

    /// The stop string that ended the text.
    pub fn hit(&self) -> Option<&str> {
        self.hit.map(|hit| &*self.strings[hit])
    }

    /// No more text will come: gives what was held back.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// Where the stop string that is complete first begins, and which it is.
    fn first(&self) -> Option<(usize, usize)> {
        let strings = self.strings.iter().enumerate();
        let found = strings.filter_map(|(i, stop)| self.held.find(stop).map(|at| (at, i)));
        found.min_by_key(|&(at, i)| (at + self.strings[i].len(), at))
    }

    /// Bytes at the end of what is held that could be the beginning of a stop string.
    fn beginning(&self) -> usize {
        let longest = |stop: &String| {
            let ends = stop.char_indices().map(|(at, _)| at);
            let found = ends.filter(|&at| self.held.ends_with(&stop[..at]));
            found.max().unwrap_or(0)
        };
        self.strings.iter().map(longest).max().unwrap_or(0)
    }
}
