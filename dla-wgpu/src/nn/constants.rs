//! The constants that specialise a layer's passes, as text in front of the WGSL.

use std::fmt::Write;

use crate::Float;

/// A header: `const` lines in the place of `common/spec_layer.wgsl`.
#[derive(Debug, Default)]
pub(super) struct Constants(String);

impl Constants {
    /// Sizes, u32.
    #[must_use]
    pub(super) fn sizes(self, sizes: &[(&str, usize)]) -> Self {
        let lines = sizes.iter();
        self.lines(lines.map(|(name, size)| format!("const {name}: u32 = {size}u;")))
    }

    /// Switches, bool.
    #[must_use]
    pub(super) fn switches(self, switches: &[(&str, bool)]) -> Self {
        let lines = switches.iter();
        self.lines(lines.map(|(name, on)| format!("const {name}: bool = {on};")))
    }

    /// Finite numbers, f32, in all their digits: the shortest for the greatest f32 is beyond it, and refused by browsers.
    #[must_use]
    pub(super) fn numbers(self, numbers: &[(&str, f32)]) -> Self {
        let exact = numbers.iter().map(|(name, x)| (name, f64::from(*x)));
        self.lines(exact.map(|(name, x)| format!("const {name}: f32 = {x:e};")))
    }

    /// The element type of the operator's arrays, which comes first for the extension that it needs.
    #[must_use]
    pub(super) fn element(self, float: Float) -> Self {
        let first = match float {
            Float::F32 => "alias io = f32;",
            Float::F16 => "enable f16;\nalias io = f16;",
        };
        Self(format!("{first}\n{}", self.0))
    }

    /// The text.
    pub(super) fn header(self) -> String {
        self.0
    }

    fn lines(mut self, lines: impl Iterator<Item = String>) -> Self {
        for line in lines {
            // Writing to a String cannot fail.
            let _ = writeln!(self.0, "{line}");
        }
        self
    }
}
