//! How long a caller waits, and how it is called off.

use crate::clock::Clock;
use crate::error::{Error, ErrorKind, Result};
use std::fmt;
use std::time::Duration;

/// A wait this long is told to the log, once, with what it waits for.
const REPORT_AFTER: Duration = Duration::from_secs(30);

/// The terms of a wait.
#[derive(Clone, Copy)]
pub struct Patience<'a> {
    stop: &'a (dyn Fn() -> bool + Sync),
    limit: Duration,
}

impl fmt::Debug for Patience<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Patience").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl<'a> Patience<'a> {
    /// Waits at most `limit` and ends early when `stop` returns true.
    ///
    /// `stop` is asked about four times a second and after every [`CacheDir::wake`](super::CacheDir::wake).
    pub fn new(stop: &'a (dyn Fn() -> bool + Sync), limit: Duration) -> Self {
        Self { stop, limit }
    }

    /// Starts to wait.
    pub(super) fn start(&self, clock: &Clock) -> Waiting<'a> {
        Waiting { patience: *self, clock: clock.clone(), since: clock.now(), reported: false }
    }
}

/// One wait in progress.
pub(super) struct Waiting<'a> {
    patience: Patience<'a>,
    clock: Clock,
    since: Duration,
    reported: bool,
}

impl Waiting<'_> {
    /// What is left of the wait.
    ///
    /// # Errors
    ///
    /// `Closed` when it was called off, `Timeout` when the time is over; `what` names the thing waited for.
    pub(super) fn left(&mut self, what: impl Fn() -> String) -> Result<Duration> {
        if (self.patience.stop)() {
            return Err(Error::new(ErrorKind::Closed, format!("closed while waiting for {}", what())));
        }
        let waited = self.clock.now().saturating_sub(self.since);
        if waited >= self.patience.limit {
            let seconds = self.patience.limit.as_secs_f64();
            return Err(Error::new(ErrorKind::Timeout, format!("waited {seconds:.0} s for {}", what())));
        }
        if waited >= REPORT_AFTER && !self.reported {
            self.reported = true;
            log::warn!("waiting since {:.0} s for {}", waited.as_secs_f64(), what());
        }
        Ok(self.patience.limit - waited)
    }
}
