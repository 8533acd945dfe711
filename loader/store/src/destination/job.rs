//! Exchanges about one object, with their attempts.

use super::cancel::Cancel;
use super::target::Target;
use crate::Result;
use crate::context::ThreadContext;
use crate::failure::Failure;
use crate::transfer::attempts;
use forebay_core::sync::{Arc, Mutex};
use std::collections::BTreeSet;
use tokio::sync::Semaphore;

/// Object of an exchange.
pub(super) struct Job {
    pub(super) target: Arc<dyn Target>,
    /// Bounds the exchanges in flight.
    pub(super) slots: Arc<Semaphore>,
    /// Bounds the threads that compute digests.
    pub(super) digests: Arc<Semaphore>,
    /// The destination, for messages.
    pub(super) name: Arc<str>,
    pub(super) key: String,
    /// Ends uploads.
    pub(super) cancel: Arc<Cancel>,
    /// Steps of the destination's clean-ups that have failed.
    pub(super) failed: Arc<Mutex<BTreeSet<&'static str>>>,
}

impl Job {
    /// Returns true the first time that a step of a clean-up fails in this destination.
    pub(super) fn is_first_failure_of(&self, step: &'static str) -> bool {
        self.failed.lock().insert(step)
    }
}

/// Makes the attempts of one step.
pub(super) async fn retried<T>(
    context: &ThreadContext,
    job: &Job,
    step: &'static str,
    mut once: impl AsyncFnMut(u32) -> Result<T, Failure>,
) -> Result<T> {
    let once = async |attempt| {
        // Never closed.
        let _slot = job.slots.acquire().await;
        once(attempt).await
    };
    let name = format_args!("{}: {}, {step}", job.name, job.key);
    let result = attempts(context, name, once, async |time| context.pause(time).await).await;
    result.map_err(|error| {
        let error = error.with("step", step);
        // A listing covers the whole destination.
        let error = if job.key.is_empty() { error } else { error.with("key", &job.key) };
        error.with("destination", &job.name)
    })
}
