//! Threads of one epoch: started by name, joined at its end.

use crate::error::{Error, Result};
use crate::sync::{Arc, JoinHandle, Mutex, spawn};
use crossbeam::channel::{Receiver, RecvTimeoutError, bounded};
use forebay_core::flow::Run;
use std::time::{Duration, Instant};

/// Time after which a thread that waits for a device is abandoned, counted from the end of all remaining threads.
const DEVICE_WAIT_MAX: Duration = Duration::from_secs(10);

/// Running threads of one epoch.
pub(crate) struct Threads {
    run: Arc<Run>,
    running: Mutex<Vec<Thread>>,
}

struct Thread {
    handle: JoinHandle<()>,
    /// Disconnected when the thread ends.
    ended: Receiver<()>,
    may_wait_for_device: bool,
}

impl Threads {
    /// No threads yet; an error or a panic in one of them ends `run`.
    pub(crate) fn new(run: Arc<Run>) -> Self {
        Self { run, running: Mutex::default() }
    }

    /// Starts a thread of `stage` that runs `body`. The end of a thread that may wait for a device is not waited for
    /// without limit.
    ///
    /// # Errors
    ///
    /// When the system rejects the thread.
    pub(crate) fn start(
        &self,
        name: &str,
        stage: &'static str,
        may_wait_for_device: bool,
        body: impl FnOnce() -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let (working, ended) = bounded::<()>(0);
        let run = self.run.clone();
        let body = move || {
            run.guard(stage, body);
            drop(working);
        };
        let handle = spawn(name, body).map_err(|e| {
            Error::from_io(e, "a thread could not be started: lower `threads` or raise the process limit")
        })?;
        self.running.lock().push(Thread { handle, ended, may_wait_for_device });
        Ok(())
    }

    /// Joins every thread, except those that wait for a device which does not answer. Returns false if there were none.
    pub(crate) fn join(&self) -> bool {
        let threads = std::mem::take(&mut *self.running.lock());
        if threads.is_empty() {
            return false;
        }
        let (for_device, others): (Vec<_>, Vec<_>) = threads.into_iter().partition(|thread| thread.may_wait_for_device);
        // Bodies catch panics, so the only possible error is a panic in the guard itself.
        others.into_iter().for_each(|thread| drop(thread.handle.join()));
        let deadline = Instant::now() + DEVICE_WAIT_MAX;
        let mut abandoned = 0;
        for Thread { handle, ended, .. } in for_device {
            let limit = deadline.saturating_duration_since(Instant::now());
            if ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                abandoned += 1;
            } else {
                let _ = handle.join();
            }
        }
        if abandoned > 0 {
            log::warn!(
                "the device does not answer: {abandoned} threads that wait for it are abandoned, with the memory of \
                 their batches"
            );
        }
        true
    }

    /// Forgets the threads without joining them: in a forked child they do not exist.
    pub(crate) fn forget(&mut self) {
        self.running.get_mut().drain(..).for_each(std::mem::forget);
    }
}
