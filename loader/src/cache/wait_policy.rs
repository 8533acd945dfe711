//! Time limit and stop condition of a wait for a different process.

use crate::clock::Clock;
use crate::error::{Error, ErrorKind, Result};
use std::time::Duration;

/// A wait without progress this long is logged, once, with the thing waited for.
const REPORT_AFTER: Duration = Duration::from_secs(30);

/// Time limit and stop condition of a wait.
#[derive(Clone, Copy)]
pub(crate) struct WaitPolicy<'a> {
    stop: &'a (dyn Fn() -> bool + Sync),
    limit: Duration,
    on_progress: Option<&'a (dyn Fn() + Sync)>,
}

impl<'a> WaitPolicy<'a> {
    /// Waits until there has been no progress for `limit`, and ends early when `stop` returns true.
    ///
    /// `stop` is called about four times a second and after every [`StreamCache::wake`](super::StreamCache::wake).
    pub(crate) fn new(stop: &'a (dyn Fn() -> bool + Sync), limit: Duration) -> Self {
        Self { stop, limit, on_progress: None }
    }

    /// Calls `on_progress` when the process that is waited for makes progress.
    #[must_use]
    pub(crate) fn on_progress(self, on_progress: &'a (dyn Fn() + Sync)) -> Self {
        Self { on_progress: Some(on_progress), ..self }
    }

    /// Starts to wait.
    pub(super) fn start(&self, clock: &Clock) -> Wait<'a> {
        Wait { policy: *self, clock: clock.clone(), since: clock.now(), is_reported: false, pulse: None }
    }
}

/// One wait in progress.
pub(super) struct Wait<'a> {
    policy: WaitPolicy<'a>,
    clock: Clock,
    /// Start of the wait, or the last progress.
    since: Duration,
    is_reported: bool,
    /// Last seen pulse of the fetch that is waited for.
    pulse: Option<bool>,
}

impl Wait<'_> {
    /// Notes the `pulse` of the fetch that is waited for: a change means that bytes have arrived.
    pub(super) fn note_pulse(&mut self, pulse: bool) {
        if self.pulse.replace(pulse).is_some_and(|before| before != pulse) {
            self.since = self.clock.now();
            if let Some(on_progress) = self.policy.on_progress {
                on_progress();
            }
        }
    }

    /// Returns the remaining time.
    ///
    /// # Errors
    ///
    /// `Closed` when the stop condition holds, `Timeout` when the time is over; `awaited` names the thing.
    pub(super) fn remaining(&mut self, awaited: impl Fn() -> String) -> Result<Duration> {
        if (self.policy.stop)() {
            return Err(Error::new(ErrorKind::Closed, format!("closed while waiting for {}", awaited())));
        }
        let waited = self.clock.now().saturating_sub(self.since);
        if waited >= self.policy.limit {
            let seconds = self.policy.limit.as_secs_f64();
            return Err(Error::new(ErrorKind::Timeout, format!("waited {seconds:.0} s for {}", awaited())));
        }
        if waited >= REPORT_AFTER && !self.is_reported {
            self.is_reported = true;
            log::warn!("waiting for {} since {:.0} s", awaited(), waited.as_secs_f64());
        }
        Ok(self.policy.limit - waited)
    }
}
