//! What a run tells of itself: metrics.jsonl, a JSON object a line.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use dla_core::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::atomic;
use crate::scores::Totals;

/// The file's name in a run's folder.
pub const FILE: &str = "metrics.jsonl";

/// A line of metrics.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq)]
#[serde(untagged)]
pub enum Line {
    /// A step.
    Step(StepLine),
    /// An evaluation on what is held out.
    Evaluation(EvaluationLine),
}

/// How a step went.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq)]
pub struct StepLine {
    /// Steps done, this one among them.
    pub step: u64,
    /// The loss before the step, in nats.
    pub loss: f64,
    /// The learning rate.
    pub rate: f64,
    /// The norm of all gradients before clipping; none where it was not finite and the step was left out.
    pub gradient_norm: Option<f64>,
    /// What the loss was multiplied by, under f16.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_scale: Option<f32>,
    /// Steps left out so far, under f16.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<u64>,
    /// Tokens a second.
    pub tokens_per_second: f64,
}

/// How well what is held out is predicted.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq)]
pub struct EvaluationLine {
    /// Steps done.
    pub step: u64,
    /// The mean loss, in nats.
    pub evaluation_loss: f64,
    /// The share of targets with the largest logit.
    pub accuracy: f64,
}

impl EvaluationLine {
    /// That of these sums.
    pub fn of(step: u64, totals: &Totals) -> Self {
        Self {
            step,
            evaluation_loss: totals.loss(),
            accuracy: totals.accuracy(),
        }
    }
}

impl Line {
    /// Steps done.
    pub fn step(&self) -> u64 {
        match self {
            Self::Step(line) => line.step,
            Self::Evaluation(line) => line.step,
        }
    }
}

/// The metrics of a run so far, in memory and in their file.
#[derive(Debug)]
pub struct Metrics {
    path: PathBuf,
    file: File,
    lines: Vec<Line>,
}

impl Metrics {
    /// Goes on in `folder` after `step` steps: later lines, which the run is about to write again, go.
    ///
    /// # Errors
    /// For a file that cannot be read or written, and lines that are no metrics.
    pub fn open(folder: &Path, step: u64) -> Result<Self> {
        let path = folder.join(FILE);
        let mut lines = read(&path)?;
        lines.retain(|line| line.step() <= step);
        let text: Vec<String> = lines.iter().map(text).collect();
        atomic::write(&path, text.concat().as_bytes())?;
        let file = OpenOptions::new().append(true).open(&path);
        let file = file.map_err(|error| unwritten(&path, error))?;
        Ok(Self { path, file, lines })
    }

    /// Adds a line.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn push(&mut self, line: Line) -> Result<()> {
        let written = self.file.write_all(text(&line).as_bytes());
        written.map_err(|error| unwritten(&self.path, error))?;
        self.lines.push(line);
        Ok(())
    }

    /// All lines so far.
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }
}

/// The lines of a metrics file; none if there is no file. A last line that was cut short does not count.
///
/// # Errors
/// For a file that cannot be read, and lines that are no metrics.
pub fn read(path: &Path) -> Result<Vec<Line>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let name = || path.display().to_string();
    let refuse =
        |error: &dyn std::fmt::Display| Error::input("train", name(), "lines of metrics", error);
    let file = File::open(path).map_err(|error| refuse(&error))?;
    let ends = fs::read(path)
        .map_err(|error| refuse(&error))?
        .ends_with(b"\n");
    let texts: Vec<String> = BufReader::new(file)
        .lines()
        .collect::<std::io::Result<_>>()
        .map_err(|error| refuse(&error))?;
    let whole = texts.len() - usize::from(!ends && !texts.is_empty());
    let lines = texts[..whole].iter().map(|text| serde_json::from_str(text));
    lines
        .collect::<serde_json::Result<_>>()
        .map_err(|error| refuse(&error))
}

fn text(line: &Line) -> String {
    // Numbers that JSON cannot spell become null; nothing else can go wrong.
    serde_json::to_string(line).unwrap_or_default() + "\n"
}

fn unwritten(path: &Path, error: std::io::Error) -> Error {
    Error::file("train", path.display().to_string(), "to be written", error)
}

#[cfg(test)]
mod tests {
    use super::{EvaluationLine, Line, Metrics, StepLine, read};

    #[test]
    fn lines_after_the_step_are_written_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let step = |step| {
            Line::Step(StepLine {
                step,
                loss: 2.5,
                rate: 1e-3,
                gradient_norm: Some(0.5),
                loss_scale: (step > 1).then_some(65_536.0),
                skipped: (step > 1).then_some(2),
                tokens_per_second: 1e4,
            })
        };
        let evaluation = Line::Evaluation(EvaluationLine {
            step: 2,
            evaluation_loss: 2.0,
            accuracy: 0.25,
        });
        let mut metrics = Metrics::open(folder.path(), 0).expect("a new file");
        for line in [step(1), evaluation, step(3)] {
            metrics.push(line).expect("to be written");
        }
        let path = folder.path().join("metrics.jsonl");
        assert_eq!(read(&path).expect("lines"), [step(1), evaluation, step(3)]);
        let text = std::fs::read_to_string(&path).expect("text");
        std::fs::write(&path, text + "{\"step\": 4, \"lo").expect("a cut line");
        let metrics = Metrics::open(folder.path(), 2).expect("lines");
        assert_eq!(metrics.lines(), [step(1), evaluation]);
        assert_eq!(read(&path).expect("lines"), metrics.lines());
        std::fs::write(&path, "{}\n").expect("no metrics");
        assert!(read(&path).expect_err("no metrics").is_input());
    }
}
