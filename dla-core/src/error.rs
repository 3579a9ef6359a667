//! One error for all crates: which operation, which argument, what was expected, what was got.

use std::borrow::Cow;

/// A `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, for callers who branch on it through the predicates of [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Input,
    Unsupported,
    Device,
    File,
    Diverged,
}

/// An error that names the operation, the argument, what was expected and what was got.
///
/// ```
/// let error = dla_core::Error::input("op", "capacity", "1 to 64", 65);
/// assert!(error.is_input());
/// assert_eq!(error.to_string(), "op, capacity: expected 1 to 64, got 65");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(Box<Report>); // boxed: a `Result` stays small

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{op}, {argument}: expected {expected}, got {got}{}", match advice { Some(a) => format!("; {a}"), None => String::new() })]
struct Report {
    kind: Kind,
    op: Cow<'static, str>,
    argument: Cow<'static, str>,
    expected: String,
    got: String,
    advice: Option<String>,
}

impl Error {
    fn new(
        kind: Kind,
        op: impl Into<Cow<'static, str>>,
        argument: impl Into<Cow<'static, str>>,
        expected: impl ToString,
        got: impl ToString,
    ) -> Self {
        Self(Box::new(Report {
            kind,
            op: op.into(),
            argument: argument.into(),
            expected: expected.to_string(),
            got: got.to_string(),
            advice: None,
        }))
    }

    /// The caller passed a value that does not fit.
    pub fn input(
        op: impl Into<Cow<'static, str>>,
        argument: impl Into<Cow<'static, str>>,
        expected: impl ToString,
        got: impl ToString,
    ) -> Self {
        Self::new(Kind::Input, op, argument, expected, got)
    }

    /// The request makes sense, but this build, device or backend cannot serve it.
    pub fn unsupported(
        op: impl Into<Cow<'static, str>>,
        argument: impl Into<Cow<'static, str>>,
        expected: impl ToString,
        got: impl ToString,
    ) -> Self {
        Self::new(Kind::Unsupported, op, argument, expected, got)
    }

    /// The device refused, ran out of memory or was lost.
    pub fn device(
        op: impl Into<Cow<'static, str>>,
        argument: impl Into<Cow<'static, str>>,
        expected: impl ToString,
        got: impl ToString,
    ) -> Self {
        Self::new(Kind::Device, op, argument, expected, got)
    }

    /// A file could not be read or written.
    pub fn file(
        op: impl Into<Cow<'static, str>>,
        argument: impl Into<Cow<'static, str>>,
        expected: impl ToString,
        got: impl ToString,
    ) -> Self {
        Self::new(Kind::File, op, argument, expected, got)
    }

    /// A computation has left the finite numbers and cannot go on.
    pub fn diverged(
        op: impl Into<Cow<'static, str>>,
        argument: impl Into<Cow<'static, str>>,
        expected: impl ToString,
        got: impl ToString,
    ) -> Self {
        Self::new(Kind::Diverged, op, argument, expected, got)
    }

    /// Adds what the reader can do about it.
    #[must_use]
    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.0.advice = Some(advice.into());
        self
    }

    /// Adds what the reader can do about it, unless something was said already.
    #[must_use]
    pub fn advise_otherwise(mut self, advice: &str) -> Self {
        self.0.advice.get_or_insert_with(|| advice.to_owned());
        self
    }

    /// The same fault as seen by a larger operation.
    #[must_use]
    pub fn within(mut self, op: impl Into<Cow<'static, str>>) -> Self {
        self.0.op = op.into();
        self
    }

    /// The same fault of what a larger operation calls `argument`.
    #[must_use]
    pub fn at(mut self, argument: impl Into<Cow<'static, str>>) -> Self {
        self.0.argument = argument.into();
        self
    }

    /// True when an argument of the caller was wrong.
    pub fn is_input(&self) -> bool {
        self.0.kind == Kind::Input
    }

    /// True when this device or build cannot do what was asked, though another might.
    pub fn is_unsupported(&self) -> bool {
        self.0.kind == Kind::Unsupported
    }

    /// True when the device failed.
    pub fn is_device(&self) -> bool {
        self.0.kind == Kind::Device
    }

    /// True when a file could not be read or written.
    pub fn is_file(&self) -> bool {
        self.0.kind == Kind::File
    }

    /// True when a computation has left the finite numbers.
    pub fn is_diverged(&self) -> bool {
        self.0.kind == Kind::Diverged
    }

    /// The operation that failed.
    pub fn op(&self) -> &str {
        &self.0.op
    }

    /// The argument at fault.
    pub fn argument(&self) -> &str {
        &self.0.argument
    }
}
