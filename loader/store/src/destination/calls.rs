//! Calls of a destination on the fetch threads.

use super::cancel::Cancel;
use super::job::{Job, retried};
use super::target::{ListRequest, Page, Target};
use crate::Result;
use crate::address::redact;
use crate::config::StoreConfig;
use crate::key::KeyForm;
use crate::queue::closed_error;
use crate::threads::{FetchQueues, FetchThreads};
use forebay_core::error::Context as _;
use forebay_core::sync::{Arc, Mutex};
use std::collections::BTreeSet;
use tokio::sync::{Semaphore, oneshot};

/// Fetch threads, the target and the bound of its exchanges in flight.
#[derive(Clone)]
pub(super) struct Calls {
    threads: Arc<FetchThreads>,
    target: Arc<dyn Target>,
    /// For messages, without secrets.
    name: Arc<str>,
    keys: KeyForm,
    slots: Arc<Semaphore>,
    digests: Arc<Semaphore>,
    cancel: Arc<Cancel>,
    failed: Arc<Mutex<BTreeSet<&'static str>>>,
}

impl Calls {
    pub(super) fn new(threads: Arc<FetchThreads>, target: Arc<dyn Target>, name: &str, keys: KeyForm) -> Self {
        let slots = Arc::new(Semaphore::new(threads.queues.context.config.uploads_in_flight));
        let name = redact(name).into();
        // The remaining CPUs are for the exchanges, and for the caller.
        let digests = std::thread::available_parallelism().map_or(1, |cpus| cpus.get().div_ceil(2));
        let digests = Arc::new(Semaphore::new(digests));
        Self { target, name, keys, slots, digests, threads, cancel: Arc::default(), failed: Arc::default() }
    }

    /// Returns a clone with uploads that are cancelled separately.
    pub(super) fn cancellable(&self) -> Self {
        Self { cancel: Arc::default(), ..self.clone() }
    }

    pub(super) fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    pub(super) fn keys(&self) -> KeyForm {
        self.keys
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn config(&self) -> &StoreConfig {
        &self.threads.queues.context.config
    }

    pub(super) fn queues(&self) -> &Arc<FetchQueues> {
        &self.threads.queues
    }

    /// Returns the job of the object `key`.
    pub(super) fn job(&self, key: &str) -> Result<Arc<Job>> {
        self.keys.check(key).context("destination", || &self.name)?;
        Ok(Arc::new(self.unchecked(key)))
    }

    fn unchecked(&self, key: &str) -> Job {
        let Self { target, name, slots, digests, cancel, failed, .. } = self.clone();
        Job { target, slots, digests, name, key: key.to_owned(), cancel, failed }
    }

    /// Starts to fetch a page of a listing.
    pub(super) fn start_page(&self, request: ListRequest) -> Result<oneshot::Receiver<Result<Page>>> {
        let job = self.unchecked(&request.prefix);
        self.queues().call(async move |context| {
            retried(&context, &job, "list", async |_| job.target.list(&context, &request).await).await
        })
    }

    /// Waits for the result of a call.
    pub(super) fn wait<T>(&self, receiver: oneshot::Receiver<Result<T>>) -> Result<T> {
        // There is no response only when the thread ends.
        receiver.blocking_recv().unwrap_or_else(|_| Err(closed_error().with("destination", &self.name)))
    }
}
