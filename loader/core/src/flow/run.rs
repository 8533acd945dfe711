//! Stop flag, failure and progress of one run of threads, such as an epoch.
//!
//! Every thread of a run holds the same [`Run`]. Stopping it sets a flag and then calls every registered waker, so
//! that a thread that sleeps on any condition wakes up and sees the flag. A panic in a stage is a failure of the run,
//! never of the process.

use crate::error::{Error, ErrorKind, Result};
use crate::sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering};
use std::panic::{AssertUnwindSafe, catch_unwind};

type Waker = Box<dyn Fn() + Send + Sync>;

/// Stop flag, first failure and progress of one run.
#[derive(Default)]
pub struct Run {
    stopped: AtomicBool,
    failure: Mutex<Option<Error>>,
    wakers: Mutex<Vec<Waker>>,
    /// Grows with every sample that is read or decoded and every shard that is published.
    progress: AtomicU64,
    /// The consumer waits for a batch.
    is_awaited: AtomicBool,
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run").field("stopped", &self.is_stopped()).finish_non_exhaustive()
    }
}

impl Run {
    /// A run that has not stopped.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// True if threads must return.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Checks for a stop, for use with `?`.
    ///
    /// # Errors
    ///
    /// `Closed` after the run has stopped.
    #[inline]
    pub fn check(&self) -> Result<()> {
        if self.is_stopped() { Err(Error::new(ErrorKind::Closed, "the epoch was stopped")) } else { Ok(()) }
    }

    /// Ends the run and wakes all its threads.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        for wake in self.wakers.lock().iter() {
            wake();
        }
    }

    /// Ends the run with `error`. Only the first failure is kept; `Closed` after a stop is an echo of it, not a
    /// failure.
    pub fn fail(&self, error: Error) {
        if error.kind() != ErrorKind::Closed || !self.is_stopped() {
            let mut failure = self.failure.lock();
            if failure.is_none() {
                *failure = Some(error);
            }
        }
        self.stop();
    }

    /// Returns the error that ended the run, if one did.
    pub fn failure(&self) -> Option<Error> {
        self.failure.lock().as_ref().map(Error::duplicate)
    }

    /// Calls `wake` when the run stops; immediately if it has stopped.
    pub fn on_stop(&self, wake: impl Fn() + Send + Sync + 'static) {
        // The flag is read under the lock that `stop` takes after it has set the flag: either `stop` calls this waker,
        // or the flag is seen here.
        let mut wakers = self.wakers.lock();
        if self.is_stopped() {
            wake();
        }
        wakers.push(Box::new(wake));
    }

    /// Records progress.
    #[inline]
    pub fn advance(&self) {
        self.progress.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns a number that grows with progress.
    #[inline]
    pub fn progress(&self) -> u64 {
        self.progress.load(Ordering::Relaxed)
    }

    /// Records that the consumer waits for a batch, or no longer does.
    #[inline]
    pub fn set_awaited(&self, is_awaited: bool) {
        self.is_awaited.store(is_awaited, Ordering::Relaxed);
    }

    /// True if the consumer waits for a batch.
    #[inline]
    pub fn is_awaited(&self) -> bool {
        self.is_awaited.load(Ordering::Relaxed)
    }

    /// Runs a stage's body; an error or a panic in it ends the run.
    pub fn guard(&self, stage: &'static str, body: impl FnOnce() -> Result<()>) {
        match catch_unwind(AssertUnwindSafe(body)) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.fail(error.with("stage", stage)),
            Err(panic) => {
                let text = panic
                    .downcast_ref::<&str>()
                    .map(|s| (*s).to_owned())
                    .or_else(|| panic.downcast_ref::<String>().cloned())
                    .unwrap_or_else(|| "no message".to_owned());
                self.fail(Error::internal(format!("a stage panicked: {text}")).with("stage", stage));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_in_a_stage_becomes_the_runs_failure() {
        let run = Run::new();
        run.guard("decode", || panic!("row {}", 3));
        assert!(run.is_stopped());
        let failure = run.failure().expect("failed");
        assert_eq!(failure.kind(), ErrorKind::Internal);
        assert!(failure.to_string().contains("row 3") && failure.to_string().contains("decode"));
    }

    #[test]
    fn the_first_failure_wins_and_a_stop_is_none() {
        let run = Run::new();
        run.stop();
        run.fail(Error::new(ErrorKind::Closed, "echo"));
        assert!(run.failure().is_none());
        run.fail(Error::config("first"));
        run.fail(Error::config("second"));
        assert_eq!(run.failure().expect("failed").message(), "first");
    }

    #[test]
    fn wakers_are_called_whether_they_come_before_or_after_the_stop() {
        let run = Run::new();
        let woken = Arc::new(AtomicU64::new(0));
        let count = woken.clone();
        run.on_stop(move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        run.stop();
        let count = woken.clone();
        run.on_stop(move || {
            count.fetch_add(10, Ordering::Relaxed);
        });
        assert_eq!(woken.load(Ordering::Relaxed), 11);
    }
}

#[cfg(test)]
mod models {
    use super::*;
    use crate::flow::{ReorderQueue, TakeOutcome};
    use crate::sync::{model, spawn};
    use std::time::Duration;

    #[test]
    fn a_failure_reaches_a_consumer_that_waits_whenever_its_waker_was_registered() {
        model(|| {
            let (run, batches) = (Run::new(), Arc::new(ReorderQueue::<()>::new(1)));
            let failing = run.clone();
            let stage = spawn("stage", move || failing.guard("decode", || Err(Error::config("broken")))).unwrap();
            let (waiting, theirs) = (run.clone(), batches.clone());
            let consumer = spawn("consumer", move || {
                let taken = theirs.take(Duration::from_secs(3600));
                (taken, waiting.failure().map(|e| e.message().to_owned()))
            });
            let woken = batches.clone();
            run.on_stop(move || woken.stop());
            assert_eq!(consumer.unwrap().join().unwrap(), (TakeOutcome::Stopped, Some("broken".to_owned())));
            stage.join().unwrap();
        });
    }

    #[test]
    fn of_two_failures_at_once_one_is_kept_and_all_stages_return() {
        model(|| {
            let run = Run::new();
            let stages = ["read", "decode"].map(|stage| {
                let run = run.clone();
                spawn(stage, move || run.guard(stage, || Err(Error::config(stage)))).unwrap()
            });
            stages.into_iter().for_each(|stage| stage.join().unwrap());
            let failure = run.failure().unwrap();
            assert!(run.is_stopped() && ["read", "decode"].contains(&failure.message()));
        });
    }
}
