//! Ctrl-C and other signals that ask the program to end: nothing half written is left behind.

use std::io::{self, IsTerminal};
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::thread;

use crate::{atomic, report};

/// What to say when a run is asked to end by itself; none where the first signal ends the program.
static NOTE: Mutex<Option<&'static str>> = Mutex::new(None);
/// Whether it has been asked.
static ASKED: AtomicBool = AtomicBool::new(false);

fn note() -> MutexGuard<'static, Option<&'static str>> {
    NOTE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on a signal removes what is half written before it ends the program. Signals that whoever started the program has
/// it ignore, as `nohup` does, stay ignored.
pub fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Where signals cannot be watched they end the program at once, and the next run removes what is left.
        let _ = listen(received);
    });
}

/// As long as it lives, the first signal only asks for an end, and the second one ends the program.
#[derive(Debug)]
pub struct Graceful(());

impl Graceful {
    /// Shows `told` on a terminal once the first signal comes.
    pub fn new(told: &'static str) -> Self {
        ASKED.store(false, Ordering::Relaxed);
        *note() = Some(told);
        Self(())
    }

    /// Whether a signal has come.
    pub fn is_asked(&self) -> bool {
        ASKED.load(Ordering::Relaxed)
    }
}

impl Drop for Graceful {
    fn drop(&mut self) {
        *note() = None;
    }
}

/// `end` ends the program as the signal would have.
fn received(end: &dyn Fn()) {
    let told = *note();
    if let Some(told) = told
        && !ASKED.swap(true, Ordering::Relaxed)
    {
        if io::stderr().is_terminal() {
            report::note(told);
        }
        return;
    }
    atomic::abandon();
    end();
    process::exit(130);
}

#[cfg(unix)]
fn listen(received: fn(&dyn Fn())) -> io::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use signal_hook::{iterator::Signals, low_level};

    let signals = [SIGHUP, SIGINT, SIGTERM];
    let mut signals = Signals::new(signals.into_iter().filter(|&signal| !is_ignored(signal)))?;
    let wait = move || {
        for signal in signals.forever() {
            received(&|| {
                // What starts this program sees which signal ended it.
                let _ = low_level::emulate_default_handler(signal);
            });
        }
    };
    let thread = thread::Builder::new().name("signals".into());
    thread.spawn(wait).map(drop)
}

#[cfg(not(unix))]
fn listen(received: fn(&dyn Fn())) -> io::Result<()> {
    ctrlc::set_handler(move || received(&|| {})).map_err(io::Error::other)
}

/// Whether the program was started with `signal` ignored, as far as the system tells.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.unwrap_or(0) >> (signal - 1) & 1 == 1
}
