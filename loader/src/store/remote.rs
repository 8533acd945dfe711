//! Remote folders.

use super::context::ThreadContext;
use super::source::{Source, Version};
use super::threads::{Call, FetchThreads, LocalFuture};
use super::ticket::{FetchRequest, FetchTicket, Job};
use super::transfer::{self, Part};
use super::url::check_key;
use crate::error::Context as _;
use crate::sync::Arc;
use crate::{Error, ErrorKind, Result};
use std::fmt;
use std::rc::Rc;

/// Remote folder. Cheap to clone; it keeps the fetch threads alive.
#[derive(Clone)]
pub struct Remote {
    threads: Arc<FetchThreads>,
    source: Arc<dyn Source>,
    name: Arc<str>,
}

impl Remote {
    pub(crate) fn new(threads: Arc<FetchThreads>, source: Arc<dyn Source>, name: &str) -> Self {
        Self { threads, source, name: name.into() }
    }

    /// Wraps the source, to count or disturb its exchanges.
    #[cfg(test)]
    pub(super) fn wrapped(&self, wrap: impl FnOnce(Arc<dyn Source>) -> Arc<dyn Source>) -> Self {
        Self { threads: self.threads.clone(), source: wrap(self.source.clone()), name: self.name.clone() }
    }

    /// Starts to fetch an object into the request's memory, in parallel ranges, and returns at once.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] for a key that is not a relative path, [`ErrorKind::Closed`] after the stores were closed,
    /// [`ErrorKind::Full`] when far too many fetches are queued. The ticket returns later errors.
    pub fn fetch(&self, request: FetchRequest) -> Result<FetchTicket> {
        check_key(&request.key).context("remote", || &self.name)?;
        let FetchRequest { key, into, urgent, on_done } = request;
        let queues = &self.threads.queues;
        let part_bytes = if self.source.has_ranges() { queues.context.config.part_bytes } else { usize::MAX };
        let lens = part_lens(into.len(), part_bytes);
        let len = into.len() as u64;
        let job = Job::new(self.source.clone(), self.name.clone(), key, len, lens.len(), on_done);
        let mut start = 0;
        let pieces = into.split(&lens).into_iter().enumerate();
        let parts = pieces.map(|(index, memory)| {
            let at = start;
            start += memory.len() as u64;
            Part::new(job.clone(), index, at, memory)
        });
        match queues.parts.push_all(parts.collect(), urgent) {
            Ok(()) => Ok(FetchTicket(job)),
            Err(parts) => {
                drop(parts);
                Err(self.rejection())
            }
        }
    }

    /// Fetches an object of unknown size that must not be larger than `limit_bytes`, and waits for it. It does not
    /// wait in the queue of fetches.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`], [`ErrorKind::Permission`], [`ErrorKind::Network`], [`ErrorKind::Timeout`], and
    /// [`ErrorKind::Format`] for an object above the limit.
    pub fn get_small(&self, key: &str, limit_bytes: usize) -> Result<(Vec<u8>, Option<Version>)> {
        check_key(key).context("remote", || &self.name)?;
        let (source, name) = (self.source.clone(), key.to_owned());
        self.call(move |context| Box::pin(async move { transfer::small(&context, &*source, &name, limit_bytes).await }))
            .context("key", || key)
            .context("remote", || &self.name)
    }

    /// Runs a small job on a fetch thread and waits for it.
    fn call<T: Send + 'static>(
        &self,
        body: impl FnOnce(Rc<ThreadContext>) -> LocalFuture<Result<T>> + Send + 'static,
    ) -> Result<T> {
        let (send, receive) = std::sync::mpsc::sync_channel(1);
        let call: Call = Box::new(move |context| {
            let work = body(context);
            Box::pin(async move {
                // Fails if the caller no longer waits.
                let _ = send.send(work.await);
            })
        });
        if self.threads.queues.calls.push_all(vec![call], false).is_err() {
            return Err(self.rejection());
        }
        // The sender is dropped without a result only when its thread ends.
        receive.recv().unwrap_or_else(|_| Err(Error::new(ErrorKind::Closed, "the store was closed")))
    }

    fn rejection(&self) -> Error {
        let error = if self.threads.queues.parts.is_closed() {
            Error::new(ErrorKind::Closed, "the store was closed")
        } else {
            Error::new(ErrorKind::Full, "too many fetches are waiting")
        };
        error.with("remote", &self.name)
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("name", &self.name).field("source", &self.source).finish()
    }
}

/// Splits `len` bytes into parts of about equal size, none above `part_bytes`: a short last part would cost a whole
/// request for little.
fn part_lens(len: usize, part_bytes: usize) -> Vec<usize> {
    let parts = len.div_ceil(part_bytes);
    (0..parts).map(|i| len / parts + usize::from(i < len % parts)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_even_and_cover_everything() {
        assert_eq!(part_lens(0, 8), Vec::<usize>::new());
        assert_eq!(part_lens(8, 8), [8]);
        assert_eq!(part_lens(17, 8), [6, 6, 5]);
        for len in 1..200 {
            let lens = part_lens(len, 7);
            assert_eq!(lens.iter().sum::<usize>(), len);
            assert!(lens.iter().all(|&n| (1..=7).contains(&n)), "{len}: {lens:?}");
        }
    }
}
