//! Pictures: self-contained files that load nothing.

use std::path::Path;

use dla_core::{Error, Result};

use super::reading::Reading;
use super::{html, svg};
use crate::atomic;

/// A picture to be drawn.
#[derive(Clone, Copy, Debug)]
pub struct Picture<'a> {
    /// Where it goes.
    pub path: &'a Path,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Html,
    Svg,
}

impl<'a> Picture<'a> {
    /// The picture that the ending of `path` asks for.
    ///
    /// # Errors
    /// For another ending, and a path that cannot be written.
    pub fn of(path: &'a Path) -> Result<Self> {
        let ending = path.extension().map(|ending| ending.to_ascii_lowercase());
        let kind = match ending.as_deref().and_then(|ending| ending.to_str()) {
            Some("html" | "htm") => Kind::Html,
            Some("svg") => Kind::Svg,
            _ => {
                let (expected, got) = ("a file ending in .html or .svg", path.display());
                return Err(Error::input("segment", "--picture", expected, got));
            }
        };
        atomic::check(path)?;
        Ok(Self { path, kind })
    }

    /// The file's text; `chosen` is the index of the head that is shown first.
    pub fn draw(&self, reading: &Reading, chosen: usize) -> String {
        match self.kind {
            Kind::Html => html::page(reading, chosen),
            Kind::Svg => svg::picture(reading),
        }
    }
}
