//! What a command says: text for people, JSON for machines, one line for errors.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use clap::error::ErrorKind;
use dla_core::{Error, Result};

/// The outcome of a command, told twice.
#[derive(Clone, Debug)]
pub struct Report {
    /// For people; empty where they have read it as it came.
    pub text: String,
    /// For machines.
    pub json: serde_json::Value,
}

/// Prints a report on stdout; nothing where its text is there already.
pub fn print(report: &Report, json: bool) -> ExitCode {
    let told = if json {
        format!("{:#}", report.json)
    } else {
        report.text.clone()
    };
    if told.is_empty() {
        return ExitCode::SUCCESS;
    }
    match write_line(io::stdout(), told.trim_end()) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read us has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => fail(&unwritten(error)),
    }
}

/// One line on stderr for people who watch; not an error.
pub fn note(line: &str) {
    let _ = write_line(io::stderr(), &format!("note: {}", one_line(line)));
}

/// Prints a piece of a text on stdout at once, without a line's end; false when nobody reads any more.
///
/// A terminal does not get control characters that could play with it.
///
/// # Errors
/// When stdout cannot be written.
pub fn piece(text: &str) -> Result<bool> {
    let mut to = io::stdout().lock();
    let told: Cow<'_, str> = if to.is_terminal() {
        text.chars().flat_map(visible).collect()
    } else {
        text.into()
    };
    match to.write_all(told.as_bytes()).and_then(|()| to.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(unwritten(error)),
    }
}

/// Lines on stderr beside a text on stdout.
pub fn aside(lines: &str) {
    let _ = write_line(io::stderr(), lines.trim_end());
}

/// Prints an error and gives its exit code: 2 for wrong input, 1 for a failed run.
pub fn fail(error: &Error) -> ExitCode {
    complain(&error.to_string());
    ExitCode::from(if error.is_input() || error.is_unsupported() {
        2
    } else {
        1
    })
}

/// Prints what the argument parser has to say: help on stdout, a mistake as one line on stderr.
///
/// `words` is the command line, which tells whose help to name.
pub fn usage(error: &clap::Error, mut command: clap::Command, words: &[OsString]) -> ExitCode {
    if !error.use_stderr() {
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let mut path = command.get_name().to_owned();
    for word in words.iter().skip(1) {
        if let Some(next) = command.find_subcommand(word) {
            path = format!("{path} {}", next.get_name());
            command = next.clone();
        }
    }
    let fault = match error.kind() {
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let names: Vec<_> = command.get_subcommands().map(|c| c.get_name()).collect();
            format!("a command is missing: {}", names.join(", "))
        }
        _ => fault(&error.to_string()),
    };
    complain(&format!("{fault}; see `{path} --help`"));
    ExitCode::from(2)
}

/// What the parsers of numbers say, and what it means.
const NUMBERS: [(&str, &str); 5] = [
    (
        "invalid digit found in string",
        "expected a whole number, 0 or more",
    ),
    (
        "cannot parse integer from empty string",
        "expected a whole number, 0 or more",
    ),
    (
        "number too large to fit in target type",
        "expected a smaller number",
    ),
    ("invalid float literal", "expected a number"),
    ("cannot parse float from empty string", "expected a number"),
];

/// What is wrong and the tips; the paragraphs that repeat the help are left out.
fn fault(told: &str) -> String {
    let mut told = told.strip_prefix("error: ").unwrap_or(told).to_owned();
    for (parser, meant) in NUMBERS {
        told = told.replace(parser, meant);
    }
    let paragraphs = told.split("\n\n").map(str::trim);
    let news: Vec<_> = paragraphs
        .take_while(|p| !p.starts_with("Usage:") && !p.starts_with("For more information"))
        .collect();
    news.join("; ").replace("\n  tip:", "; tip:")
}

/// True when stdout shows colours.
pub fn colours() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|word| word.is_empty())
}

fn complain(fault: &str) {
    // With stderr gone the exit code is all that is left to say.
    let _ = write_line(io::stderr(), &format!("error: {}", one_line(fault)));
}

fn write_line(mut to: impl Write, line: &str) -> io::Result<()> {
    writeln!(to, "{line}")?;
    to.flush()
}

/// Whitespace, line ends included, becomes single blanks; other control characters, which a file could
/// use to play with the terminal, are shown escaped.
fn one_line(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    words.chars().flat_map(printable).collect()
}

fn unwritten(error: io::Error) -> Error {
    Error::file("print", "stdout", "to be written", error)
}

/// [`printable`], and the white space of a text.
fn visible(c: char) -> Vec<char> {
    if matches!(c, '\n' | '\t') {
        vec![c]
    } else {
        printable(c)
    }
}

fn printable(c: char) -> Vec<char> {
    if c.is_control() {
        c.escape_default().collect()
    } else {
        vec![c]
    }
}

#[cfg(test)]
mod tests {
    use super::one_line;

    #[test]
    fn errors_stay_on_one_line() {
        assert_eq!(one_line("a\n  b\tc\r\n"), "a b c");
        assert_eq!(one_line("\u{1b}[31mred"), "\\u{1b}[31mred");
    }
}
