//! A sign of life for work that takes its time.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use indicatif::ProgressBar;

/// How long users wait before they want to know.
const PATIENCE: Duration = Duration::from_secs(1);

/// Does `work`; a spinner that says `what` turns on stderr once a second has passed, if that is a terminal.
pub fn watched<T>(what: &'static str, work: impl FnOnce() -> T) -> T {
    let (done, waiting) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            if waiting.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                let spinner = ProgressBar::new_spinner().with_message(what);
                spinner.enable_steady_tick(Duration::from_millis(100));
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

#[cfg(test)]
mod tests {
    use super::watched;

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
}
