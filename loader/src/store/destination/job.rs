//! Exchanges about one object, with their attempts.

use super::target::Target;
use crate::Result;
use crate::store::context::ThreadContext;
use crate::store::failure::Failure;
use crate::store::transfer::attempts;
use crate::sync::Arc;
use tokio::sync::Semaphore;

/// Object of an exchange.
pub(super) struct Job {
    pub(super) target: Arc<dyn Target>,
    /// Bounds the exchanges in flight.
    pub(super) slots: Arc<Semaphore>,
    /// The destination, for messages.
    pub(super) name: Arc<str>,
    pub(super) key: String,
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
        // A listing is of the whole destination.
        let error = if job.key.is_empty() { error } else { error.with("key", &job.key) };
        error.with("destination", &job.name)
    })
}
