//! How far work has come, on stderr: a bar on a terminal, a line from time to time elsewhere.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use indicatif::{DecimalBytes, HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::report;

/// How long users wait before they want to know.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often a bar moves.
const FRAME: Duration = Duration::from_millis(100);
/// How often a line is written where there is no terminal.
const LINES: Duration = Duration::from_secs(10);
/// Bytes that are written before a bar moves.
const STRIDE: usize = 1 << 20;

/// Does `work`; a spinner that says `what` turns on stderr once a second has passed, if that is a terminal.
pub fn watched<T>(what: &'static str, work: impl FnOnce() -> T) -> T {
    let (done, waiting) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            if waiting.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                let spinner = ProgressBar::new_spinner().with_message(what);
                spinner.enable_steady_tick(FRAME);
                // Ends with an error when the sender is dropped, which is the news waited for.
                let _ = waiting.recv();
                spinner.finish_and_clear();
            }
        });
        let result = work();
        drop(done);
        result
    })
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Tokens.
    Tokens,
    /// Texts that a model was asked about.
    Texts,
    /// Steps of training.
    Steps,
    /// Bytes.
    Bytes,
}

/// Work whose end is known: what it is, how much of it there is, how much is done.
#[derive(Debug)]
pub struct Work {
    what: &'static str,
    unit: Unit,
    /// Done before: it says nothing about the pace.
    before: u64,
    total: u64,
    done: AtomicU64,
    begun: Instant,
}

impl Work {
    /// `total` of `unit`, of which `before` were done by an earlier run.
    pub fn new(what: &'static str, unit: Unit, before: u64, total: u64) -> Self {
        Self {
            what,
            unit,
            before,
            total,
            done: AtomicU64::new(before),
            begun: Instant::now(),
        }
    }

    fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Where it stands after `elapsed`: how much, the share, the pace and the time left.
    pub fn standing(&self, elapsed: Duration) -> String {
        let (done, seconds) = (self.done(), elapsed.as_secs_f64());
        let share = 100.0 * done as f64 / self.total.max(1) as f64;
        let mut text = match self.unit {
            Unit::Bytes => format!("{} of {}", DecimalBytes(done), DecimalBytes(self.total)),
            unit => format!("{} of {} {unit}", HumanCount(done), HumanCount(self.total)),
        };
        text += &format!(" ({share:.0}%)");
        let pace = (done - self.before) as f64 / seconds;
        if pace > 0.0 && pace.is_finite() {
            let left = self.total.saturating_sub(done) as f64 / pace;
            text += &format!(", {}, {} left", self.unit.pace(pace), Time(left));
        }
        text
    }
}

impl Unit {
    fn pace(self, pace: f64) -> String {
        match self {
            Self::Bytes => format!("{}/s", DecimalBytes(pace as u64)),
            unit if pace >= 100.0 => format!("{}/s", Count(HumanCount(pace.round() as u64), unit)),
            unit => format!("{pace:.1} {unit}/s"),
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tokens => "tokens",
            Self::Texts => "texts",
            Self::Steps => "steps",
            Self::Bytes => "bytes",
        })
    }
}

/// A number of a unit.
struct Count(HumanCount, Unit);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0, self.1)
    }
}

/// Seconds in the two largest units that matter.
struct Time(f64);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.ceil() as u64;
        match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
            (0, 0, s) => write!(f, "{s} s"),
            (0, m, s) => write!(f, "{m} min {s} s"),
            (h, m, _) => write!(f, "{h} h {m} min"),
        }
    }
}

/// Shows on stderr how far work has come until it is dropped: from the first second on, on a terminal, as a bar;
/// elsewhere as a line every ten seconds.
#[derive(Debug)]
pub struct Progress {
    work: Arc<Work>,
    bar: ProgressBar,
    /// What is said beside the standing.
    beside: Arc<Mutex<String>>,
    /// Dropped at the end, which stops the thread.
    ending: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Shows `work`.
    pub fn new(what: &'static str, unit: Unit, total: usize) -> Self {
        Self::of(Work::new(what, unit, 0, total as u64), Some(LINES))
    }

    /// Shows steps on from `before`; where there is no terminal, only [`Progress::line`] writes lines.
    pub fn of_steps(what: &'static str, before: u64, total: u64) -> Self {
        Self::of(Work::new(what, Unit::Steps, before, total), None)
    }

    fn of(work: Work, lines: Option<Duration>) -> Self {
        let (work, beside) = (Arc::new(work), Arc::new(Mutex::new(String::new())));
        let bar = ProgressBar::with_draw_target(Some(work.total), ProgressDrawTarget::hidden());
        // Words that cannot be shown leave the bar as it is.
        if let Ok(style) = ProgressStyle::with_template("{prefix} {wide_bar} {msg}") {
            bar.set_style(style);
        }
        bar.set_prefix(work.what);
        let (ending, ended) = mpsc::channel::<()>();
        let waits = move |time| ended.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
        let thread = match (io::stderr().is_terminal(), lines) {
            (true, _) => {
                let (work, bar, beside) = (work.clone(), bar.clone(), beside.clone());
                Some(thread::spawn(move || animate(&work, &bar, &beside, waits)))
            }
            (false, Some(every)) => {
                let work = work.clone();
                Some(thread::spawn(move || {
                    while waits(every) {
                        let standing = work.standing(work.begun.elapsed());
                        report::aside(&format!("{}: {standing}", work.what));
                    }
                }))
            }
            (false, None) => None,
        };
        Self {
            work,
            bar,
            beside,
            ending: Some(ending),
            thread,
        }
    }

    /// So many more are done.
    pub fn advance(&self, more: usize) {
        self.work.done.fetch_add(more as u64, Ordering::Relaxed);
    }

    /// So many are done in all.
    pub fn reach(&self, done: u64) {
        self.work.done.store(done, Ordering::Relaxed);
    }

    /// What the bar says beside how far it is.
    pub fn beside(&self, text: String) {
        if let Ok(mut beside) = self.beside.lock() {
            *beside = text;
        }
    }

    /// Where the work stands now.
    pub fn standing(&self) -> String {
        self.work.standing(self.work.begun.elapsed())
    }

    /// True where there is a bar and no lines.
    pub fn has_bar(&self) -> bool {
        io::stderr().is_terminal()
    }

    /// Writes a line on stderr, above the bar.
    pub fn line(&self, text: &str) {
        self.bar.suspend(|| report::aside(text));
    }

    /// `out`, the bytes that go there counted.
    pub fn counting<W: Write>(&self, out: W) -> Counting<'_, W> {
        let progress = self;
        Counting { progress, out }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.ending.take();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked had only something to show.
            let _ = thread.join();
        }
    }
}

/// Moves the bar until the work has ended, which `waits` tells.
fn animate(
    work: &Work,
    bar: &ProgressBar,
    beside: &Mutex<String>,
    waits: impl Fn(Duration) -> bool,
) {
    if !waits(PATIENCE) {
        return;
    }
    bar.set_draw_target(ProgressDrawTarget::stderr());
    loop {
        let mut text = work.standing(work.begun.elapsed());
        if let Ok(beside) = beside.lock()
            && !beside.is_empty()
        {
            text = format!("{text}, {beside}");
        }
        bar.set_message(text);
        bar.set_position(work.done());
        if !waits(FRAME) {
            return bar.finish_and_clear();
        }
    }
}

/// A writer whose bytes are counted.
#[derive(Debug)]
pub struct Counting<'a, W> {
    progress: &'a Progress,
    out: W,
}

impl<W: Write> Write for Counting<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(&bytes[..bytes.len().min(STRIDE)])?;
        self.progress.advance(written);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::{Progress, Time, Unit, Work, watched};
    use std::io::Write;
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    #[test]
    fn work_is_done_once_and_given_back() {
        let mut times = 0;
        assert_eq!(
            watched("counting", || {
                times += 1;
                times
            }),
            1
        );
    }

    #[test]
    fn the_standing_has_count_share_pace_and_time_left() {
        let work = Work::new("reading", Unit::Tokens, 0, 100_000);
        let at = |done, seconds| {
            work.done.store(done, Ordering::Relaxed);
            work.standing(Duration::from_secs(seconds))
        };
        assert_eq!(at(0, 5), "0 of 100,000 tokens (0%)", "no pace yet");
        assert_eq!(
            at(12_500, 10),
            "12,500 of 100,000 tokens (12%), 1,250 tokens/s, 1 min 10 s left"
        );
        assert_eq!(
            at(50, 100),
            "50 of 100,000 tokens (0%), 0.5 tokens/s, 55 h 31 min left"
        );
        let work = Work::new("writing", Unit::Bytes, 0, 2_000_000);
        work.done.store(500_000, Ordering::Relaxed);
        let told = work.standing(Duration::from_secs(1));
        assert_eq!(told, "500.00 kB of 2.00 MB (25%), 500.00 kB/s, 3 s left");
    }

    #[test]
    fn kind_52_time_left_counts_only_what_this_run_has_done() {
        // 900 steps were there when it went on; ten more took 20 s, so the last 90 take three minutes.
        let work = Work::new("training", Unit::Steps, 900, 1000);
        assert_eq!(
            work.standing(Duration::from_secs(0)),
            "900 of 1,000 steps (90%)"
        );
        work.done.store(910, Ordering::Relaxed);
        assert_eq!(
            work.standing(Duration::from_secs(20)),
            "910 of 1,000 steps (91%), 0.5 steps/s, 3 min 0 s left"
        );
    }

    #[test]
    fn times_are_told_in_two_units() {
        for (seconds, told) in [
            (0.2, "1 s"),
            (59.0, "59 s"),
            (61.0, "1 min 1 s"),
            (7_500.0, "2 h 5 min"),
        ] {
            assert_eq!(Time(seconds).to_string(), told);
        }
    }

    #[test]
    fn bytes_are_counted_as_they_are_written() {
        let progress = Progress::new("writing", Unit::Bytes, 3 << 20);
        let mut out = Vec::new();
        let bytes = vec![7; (2 << 20) + 5];
        progress.counting(&mut out).write_all(&bytes).expect("room");
        assert_eq!((progress.work.done(), out), (bytes.len() as u64, bytes));
    }
}
