//! How long a caller waits, and how it is called off.

use crate::clock::Clock;
use crate::error::{Error, ErrorKind, Result};
use std::fmt;
use std::time::Duration;

/// A wait in vain this long is told to the log, once, with what it waits for.
const REPORT_AFTER: Duration = Duration::from_secs(30);

/// The terms of a wait.
#[derive(Clone, Copy)]
pub struct Patience<'a> {
    stop: &'a (dyn Fn() -> bool + Sync),
    limit: Duration,
    /// Called when whoever is waited for has got on.
    moved: Option<&'a (dyn Fn() + Sync)>,
}

impl fmt::Debug for Patience<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Patience").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl<'a> Patience<'a> {
    /// Waits until nothing has moved for `limit`, and ends early when `stop` returns true.
    ///
    /// `stop` is asked about four times a second and after every [`CacheDir::wake`](super::CacheDir::wake).
    pub fn new(stop: &'a (dyn Fn() -> bool + Sync), limit: Duration) -> Self {
        Self { stop, limit, moved: None }
    }

    /// Calls `moved` when another process's fetch of what is waited for gets on.
    #[must_use]
    pub fn on_progress(self, moved: &'a (dyn Fn() + Sync)) -> Self {
        Self { moved: Some(moved), ..self }
    }

    /// Starts to wait.
    pub(super) fn start(&self, clock: &Clock) -> Waiting<'a> {
        Waiting { patience: *self, clock: clock.clone(), since: clock.now(), reported: false, pulse: None }
    }
}

/// One wait in progress.
pub(super) struct Waiting<'a> {
    patience: Patience<'a>,
    clock: Clock,
    /// When the wait began, or what is waited for last got on.
    since: Duration,
    reported: bool,
    /// The pulse of the fetch that is waited for, as last seen.
    pulse: Option<bool>,
}

impl Waiting<'_> {
    /// Looks at the `pulse` of the fetch that is waited for: a turn means that bytes have come in.
    pub(super) fn feel(&mut self, pulse: bool) {
        if self.pulse.replace(pulse).is_some_and(|before| before != pulse) {
            self.since = self.clock.now();
            if let Some(moved) = self.patience.moved {
                moved();
            }
        }
    }

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
