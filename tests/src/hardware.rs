//! The case table on the machine at hand, and the record of all machines: `docs/hardware.md`.

use std::fmt;

use dla_core::{Error, Output, Result};
use dla_wgpu::{Float, Gpu};

use crate::cases::{Case, cases};
use crate::kernels::Kernels;
use crate::pieces::in_pieces;
use crate::tolerance::relative_rms;

/// Worst relative rms of each array over the table.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Errors {
    /// Of `o`.
    pub o: f64,
    /// Of the scores.
    pub score: f64,
    /// Of the states.
    pub states: f64,
    /// Of their information.
    pub info: f64,
}

impl Errors {
    fn of(got: &Output<f32>, expected: &Output<f64>) -> Self {
        let wide = |x: &[f32]| x.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
        Self {
            o: relative_rms(&got.o, &expected.o),
            score: relative_rms(&got.trace.score, &wide(&expected.trace.score)),
            states: relative_rms(&got.cache.states, &expected.cache.states),
            info: relative_rms(&got.cache.info, &expected.cache.info),
        }
    }

    fn worst(self, other: Self) -> Self {
        Self {
            o: self.o.max(other.o),
            score: self.score.max(other.score),
            states: self.states.max(other.states),
            info: self.info.max(other.info),
        }
    }
}

/// Runs the table through `kernels`, each run with its own decisions, judged.
///
/// Returns the number of cases that these kernels take and the worst errors.
///
/// # Errors
/// [`Error::is_device`] for a decision that is not the rule's.
///
/// # Panics
/// When the device refuses a call.
pub fn measure(gpu: &Gpu, kernels: Kernels) -> Result<(usize, Errors)> {
    let cases: Vec<_> = cases()
        .into_iter()
        .filter(|case| kernels.take(&case.dims, &case.config))
        .collect();
    let mut worst = Errors::default();
    for case in &cases {
        worst = worst.worst(errors(gpu, kernels, case)?);
    }
    Ok((cases.len(), worst))
}

fn errors(gpu: &Gpu, kernels: Kernels, case: &Case) -> Result<Errors> {
    let arrays = match kernels.float() {
        Float::F32 => case.arrays(),
        Float::F16 => case.arrays().halved(),
    };
    let sizes = sizes(kernels, case.dims.tokens);
    let got = in_pieces(gpu, case, &arrays, None, &sizes, &kernels.options());
    let judged = case.judge(&arrays, &got.trace.decisions)?;
    match judged.fault {
        Some(fault) => Err(Error::device(case.name, "decisions", "the rule's", fault)),
        None => Ok(Errors::of(&got, &judged.output)),
    }
}

/// All tokens in one call; one by one the last few in calls of their own, as in decoding.
fn sizes(kernels: Kernels, tokens: usize) -> Vec<usize> {
    let alone = match kernels {
        Kernels::Steps => tokens.min(8),
        _ => 0,
    };
    let mut sizes = vec![1; 1 + alone];
    sizes[0] = tokens - alone;
    sizes
}

/// One line of the record: a device and kernels, and how they did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row(Vec<String>);

const COLUMNS: [&str; 10] = [
    "device", "backend", "driver", "kernels", "WGSL", "cases", "o", "score", "states", "info",
];

impl Row {
    /// The row of a measurement.
    pub fn new(gpu: &Gpu, kernels: Kernels, cases: usize, errors: Errors) -> Self {
        let info = gpu.info();
        let rms = [errors.o, errors.score, errors.states, errors.info];
        let words = [
            info.name,
            info.backend.to_string(),
            format!("{} {}", info.driver, info.driver_info),
            kernels.name().into(),
            hash(kernels),
            cases.to_string(),
        ];
        let words = words.into_iter().chain(rms.map(|x| format!("{x:.1e}")));
        Self(words.map(|word| cell(&word)).collect())
    }

    /// Device, backend and kernels: what a newer row replaces.
    fn key(&self) -> [&str; 3] {
        [&self.0[0], &self.0[1], &self.0[3]]
    }

    /// Reads a line of the table that is neither its head nor its rule.
    pub fn parse(line: &str) -> Option<Self> {
        let inner = line.strip_prefix("| ")?.strip_suffix(" |")?;
        let cells: Vec<_> = inner.split(" | ").map(str::to_owned).collect();
        (cells.len() == COLUMNS.len() && cells[0] != COLUMNS[0]).then_some(Self(cells))
    }

    /// `device kernels` if the tree's WGSL is no longer what was measured.
    fn stale(&self) -> Option<String> {
        let kernels = Kernels::ALL.iter().find(|k| k.name() == self.0[3]);
        let current = kernels.is_some_and(|&kernels| hash(kernels) == self.0[4]);
        (!current).then(|| format!("{}, {}", self.0[0], self.0[3]))
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "| {} |", self.0.join(" | "))
    }
}

fn hash(kernels: Kernels) -> String {
    format!("{:016x}", kernels.hash())
}

/// A word without what would end a cell.
fn cell(word: &str) -> String {
    word.replace('|', "/").trim().to_owned()
}

/// The record of all machines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    rows: Vec<Row>,
}

const HEAD: &str = "\
# Hardware

The case table (`tests/src/cases.rs`) on real devices, every decision judged by the reference in double
precision; the numbers are the worst relative rms of an array over all cases that the kernels take. *WGSL* is
a hash of the kernels' sources under the settings of `tests/src/kernels.rs`: `tests/run` says STALE where the
sources have changed since. A machine adds or replaces its rows with

    cargo run --release -p dla-tests --bin hardware

*portable*: chunks in f32 on a device without optional features. *subgroups*: with subgroup operations. *f16*:
`q`, `k`, `v`, `o` and state versions in half precision. *f16 matrices*: the same by cooperative matrices.
*steps*: token by token in f32.

";

impl Record {
    /// Reads the file's rows; other lines are prose.
    pub fn parse(text: &str) -> Self {
        Self {
            rows: text.lines().filter_map(Row::parse).collect(),
        }
    }

    /// Adds a row in place of an older one of the same device, backend and kernels.
    pub fn put(&mut self, row: Row) {
        match self.rows.iter_mut().find(|old| old.key() == row.key()) {
            Some(old) => *old = row,
            None => self.rows.push(row),
        }
    }

    /// The rows, by device and kernels, whose WGSL has changed since.
    pub fn stale(&self) -> Vec<String> {
        self.rows.iter().filter_map(Row::stale).collect()
    }

    /// The kernels that no row is about.
    pub fn missing(&self) -> Vec<&'static str> {
        let recorded = |name: &str| self.rows.iter().any(|row| row.0[3] == name);
        let names = Kernels::ALL.iter().map(|kernels| kernels.name());
        names.filter(|name| !recorded(name)).collect()
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEAD}| {} |", COLUMNS.join(" | "))?;
        writeln!(f, "|{}", "---|".repeat(COLUMNS.len()))?;
        self.rows.iter().try_for_each(|row| writeln!(f, "{row}"))
    }
}
