//! Remote folders: objects of a store below one address.

use super::address::redact;
use super::buffer::FetchMemory;
use super::key::KeyForm;
use super::queue::closed_error;
use super::source::{Encoded, Source, Version};
use super::threads::FetchThreads;
use super::ticket::{FetchRequest, FetchTicket, Job};
use super::transfer::{self, ObjectPart, Peek};
use crate::Result;
use forebay_core::error::Context as _;
use forebay_core::sync::Arc;
use forebay_core::versions::Versions;
use std::fmt;
use tokio::sync::oneshot;

/// Remote folder. Cheap to clone; it keeps the fetch threads alive.
#[derive(Clone)]
pub struct Remote {
    threads: Arc<FetchThreads>,
    source: Arc<dyn Source>,
    /// For messages, without secrets.
    name: Arc<str>,
    keys: KeyForm,
    /// Versions of the objects, if a job compares them.
    versions: Option<Arc<Versions>>,
}

impl Remote {
    pub(crate) fn new(threads: Arc<FetchThreads>, source: Arc<dyn Source>, name: &str, keys: KeyForm) -> Self {
        Self { threads, source, name: redact(name).into(), keys, versions: None }
    }

    /// Returns the folder for a job: an object is an error if its version is not the one in `versions`, or not the
    /// version of its first response.
    pub fn comparing(self, versions: Arc<Versions>) -> Self {
        Self { versions: Some(versions), ..self }
    }

    /// Returns the folder without comparisons of versions, for objects with a hash that their bytes are compared with.
    pub fn without_versions(&self) -> Self {
        Self { versions: None, ..self.clone() }
    }

    /// Versions of the objects that a job compares.
    pub fn versions(&self) -> Option<&Arc<Versions>> {
        self.versions.as_ref()
    }

    /// Address without secrets.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of attempts to get an object with the right bytes: one for a folder, which returns the same
    /// ones.
    pub fn attempts(&self) -> u32 {
        if self.source.is_on_network() { self.threads.queues.context.config.download_retry.max(1) } else { 1 }
    }

    /// Returns false if each range is sent with all bytes before it.
    pub fn has_ranges(&self) -> bool {
        self.source.has_ranges()
    }

    /// Wraps the source, to count or disturb its exchanges.
    #[cfg(test)]
    pub(super) fn wrapped(&self, wrap: impl FnOnce(Arc<dyn Source>) -> Arc<dyn Source>) -> Self {
        Self { source: wrap(self.source.clone()), ..self.clone() }
    }

    /// Starts to fetch an object, or a range of it, into the request's memory, in parallel ranges, and returns at once.
    ///
    /// # Errors
    ///
    /// `Config` for a key that is not a relative path, `Closed` after the stores were closed, `Full` when
    /// far too many fetches are queued. The ticket returns later errors.
    pub fn fetch<M: FetchMemory>(&self, mut request: FetchRequest<M>) -> Result<FetchTicket<M>> {
        self.keys.check(&request.key).context("remote", || &self.name)?;
        let queues = &self.threads.queues;
        let part_bytes = if self.source.has_ranges() { queues.context.config.part_bytes } else { usize::MAX };
        let len = request.into.bytes_mut().len();
        let lens = part_lens(len, part_bytes);
        let empty = lens.is_empty().then(|| request.into.split_front(0));
        let of = (self.source.clone(), self.name.clone(), self.versions.clone());
        let job = Job::new(of, &request, (len as u64, lens.len()), empty);
        let FetchRequest { mut into, mut start, .. } = request;
        let parts = lens.into_iter().enumerate().map(|(index, bytes)| {
            let part = ObjectPart::new(job.clone(), index, start, into.split_front(bytes));
            start += bytes as u64;
            part
        });
        queues.parts.push_all(parts.collect()).context("remote", || &self.name)?;
        Ok(FetchTicket::new(job))
    }

    /// Starts to fetch the first `bytes` of an object of unknown length, which must be at least 1, and its length.
    /// `ended` is called with the outcome once, on a fetch thread.
    ///
    /// # Errors
    ///
    /// `Config` for a key that is not a relative path, `Closed` after the stores were closed, `Full` when far too many
    /// requests are queued. The outcome has later errors, and `Unsupported` where a server does not report the length.
    pub fn peek(&self, key: &str, bytes: usize, ended: impl FnOnce(Result<Peek>) + Send + 'static) -> Result<()> {
        self.peek_encoded((key, Encoded::Refused), bytes, ended)
    }

    /// Starts to fetch like [`peek`](Self::peek), with a different treatment of an object that is sent with an
    /// encoding.
    ///
    /// # Errors
    ///
    /// As [`peek`](Self::peek).
    pub fn peek_encoded(
        &self,
        (key, encoded): (&str, Encoded),
        bytes: usize,
        ended: impl FnOnce(Result<Peek>) + Send + 'static,
    ) -> Result<()> {
        self.keys.check(key).context("remote", || &self.name)?;
        let (source, remote, key) = (self.source.clone(), self.name.clone(), key.to_owned());
        let versions = self.versions.clone();
        let ended = Ended(Some(ended));
        let started = self.threads.queues.call(async move |context| {
            let outcome = transfer::peek(&context, &*source, (&key, encoded, versions.as_deref()), bytes).await;
            ended.call(outcome.context("key", || &key).context("remote", || &remote));
            Ok(())
        });
        started.map(|_receiver: oneshot::Receiver<Result<()>>| ()).context("remote", || &self.name)
    }

    /// Fetches an object of unknown size that must not be larger than `limit_bytes`, and waits for it. It does not
    /// wait in the queue of fetches.
    ///
    /// # Errors
    ///
    /// `NotFound`, `Permission`, `Network`, `Timeout`, and `Format` for an object above the limit.
    pub fn get_small(&self, key: &str, limit_bytes: usize) -> Result<(Vec<u8>, Option<Version>)> {
        self.get_whole(key, limit_bytes, |_| true)
    }

    /// Like [`get_small`](Self::get_small), for an object that shows if it `is_whole`. Incomplete bytes are only
    /// returned if all attempts have some: a response without a length may end early, and a gateway may send a
    /// different page.
    ///
    /// # Errors
    ///
    /// As [`get_small`](Self::get_small).
    pub fn get_whole(
        &self,
        key: &str,
        limit_bytes: usize,
        is_whole: fn(&[u8]) -> bool,
    ) -> Result<(Vec<u8>, Option<Version>)> {
        self.keys.check(key).context("remote", || &self.name)?;
        let (source, name) = (self.source.clone(), key.to_owned());
        let response = self
            .threads
            .queues
            .call(async move |context| transfer::small(&context, &*source, &name, limit_bytes, is_whole).await);
        // A call has no response only when its thread ends.
        let response = response.and_then(|response| response.blocking_recv().unwrap_or_else(|_| Err(closed_error())));
        response.context("key", || key).context("remote", || &self.name)
    }
}

/// Callback that learns of the end of the fetch threads as well.
struct Ended<F: FnOnce(Result<Peek>)>(Option<F>);

impl<F: FnOnce(Result<Peek>)> Ended<F> {
    fn call(mut self, outcome: Result<Peek>) {
        if let Some(ended) = self.0.take() {
            ended(outcome);
        }
    }
}

impl<F: FnOnce(Result<Peek>)> Drop for Ended<F> {
    fn drop(&mut self) {
        if let Some(ended) = self.0.take() {
            ended(Err(closed_error()));
        }
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("name", &self.name).finish_non_exhaustive()
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
